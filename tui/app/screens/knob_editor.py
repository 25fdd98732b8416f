"""One knob's new value, typed, with its choices and SGLang's own help."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.steps import parse
from tui.app.text import escape, fit, value
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import FlagInfo


class Unset:
    """The operator wants the flag removed from the launch."""


class KnobEditor(ModalScreen[object]):
    """Dismisses with the new value, with `Unset`, or with None when nothing is to change."""

    BINDING_GROUP_TITLE = "Knob editor"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="editor.cancel")]

    def __init__(self, name: str, old: object, now: object, flag: FlagInfo | None) -> None:
        super().__init__()
        self._knob, self._old, self._now, self._flag = name, old, now, flag
        self._error = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(self._head)
            yield Input("" if self._now is None else value(self._now), id="editor-input", compact=True)
            yield Rows(self._tail, id="body")

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).focus()

    def _head(self, width: int) -> list[Line]:
        in_force = f"in force {value(self._old)}"
        return [[(fit(f" {escape(self._knob)}", width - len(in_force) - 3), "title"), (f"   {in_force}", "quiet")], []]

    def _tail(self, width: int) -> list[Line]:
        from tui.app.screens.dialog import paragraph

        lines: list[Line] = [[]]
        if self._error:
            lines += paragraph(escape(self._error), width, "bad")
        if self._flag is not None:
            if self._flag.choices:
                lines += paragraph(
                    "one of " + ", ".join(escape(choice) for choice in self._flag.choices), width, "plain"
                )
            if self._flag.default is not None:
                lines += paragraph(f"SGLang's default: {value(self._flag.default)}", width, "quiet")
            if self._flag.help:
                lines += paragraph(escape(self._flag.help), width, "quiet")
        lines += paragraph("enter takes it, empty removes the flag, esc leaves it as it is", width, "quiet")
        return lines

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        try:
            new = parse(self._flag, event.value, self._old)
        except ValueError as error:
            self._error = str(error)
            self.query_one("#body", Rows).rebuild()
            return
        self.dismiss(Unset if new is None else new)

    def action_cancel(self) -> None:
        self.dismiss(None)
