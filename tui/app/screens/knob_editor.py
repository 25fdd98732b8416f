"""One knob's new value: a list for choices and switches, typed and checked for everything else."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.glyphs import glyphs_of
from tui.app.knob_values import next_value, parse, shown
from tui.app.screens.dialog_lines import paragraph
from tui.app.text import escape, fit, value
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import FlagInfo

VISIBLE = 10  # choices shown at once


class Unset:
    """The operator wants the flag removed from the launch."""


class KnobEditor(ModalScreen[object]):
    """Dismisses with the new value, with `Unset`, or with None when nothing is to change."""

    BINDING_GROUP_TITLE = "Knob editor"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="editor.cancel"),
        Binding("up,k", "move(-1)", "Choice above, or step the number up", id="editor.up", show=False),
        Binding("down,j", "move(1)", "Choice below, or step the number down", id="editor.down", show=False),
        Binding("enter", "take", "Take the choice", id="editor.take", show=False),
        Binding("space", "move(1)", "Toggle the switch", id="editor.toggle", show=False),
    ]

    def __init__(self, name: str, old: object, now: object, flag: FlagInfo | None) -> None:
        super().__init__()
        self._knob, self._old, self._now, self._flag = name, old, now, flag
        self._error = ""
        self._choices = _choices(now if now is not None else old, flag)
        texts = [shown(choice) for choice in self._choices]
        self._chosen = texts.index(shown(now)) if shown(now) in texts and now is not None else len(texts) - 1

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(self._head)
            if self._choices:
                yield Rows(self._list, id="choices")
            else:
                yield Input(shown(self._now), id="editor-input", compact=True)
            yield Rows(self._tail, id="body")

    def on_mount(self) -> None:
        if not self._choices:
            self.query_one(Input).cursor_blink = False
            self.query_one(Input).focus()

    def _head(self, width: int) -> list[Line]:
        in_force = f"in force {value(self._old)}"
        if len(in_force) > width // 2:
            in_force = ""
        return [[(fit(f" {escape(self._knob)}", width - len(in_force) - 3), "title"), (f"   {in_force}", "quiet")], []]

    def _list(self, width: int) -> list[Line]:
        glyphs = glyphs_of(self.app)
        top = max(0, min(self._chosen - VISIBLE // 2, len(self._choices) - VISIBLE))
        lines: list[Line] = []
        for at, choice in list(enumerate(self._choices))[top : top + VISIBLE]:
            here = at == self._chosen
            words = "not set: SGLang decides" if choice is Unset else escape(shown(choice))
            words += "  (in force)" if choice is not Unset and shown(choice) == shown(self._old) else ""
            lines.append(
                [(f" {glyphs.cursor if here else ' '} ", "key"), (fit(words, width - 4), "cursor" if here else "plain")]
            )
        if len(self._choices) > VISIBLE:
            lines.append([(f"   {top + 1}–{top + VISIBLE} of {len(self._choices)}", "quiet")])
        return lines

    def _tail(self, width: int) -> list[Line]:
        lines: list[Line] = [[]]
        if self._error:
            lines += paragraph(escape(self._error), width, "bad")
        if self._flag is not None:
            if self._flag.default is not None:
                lines += paragraph(f"SGLang's default: {value(self._flag.default)}", width, "quiet")
            if self._flag.help:
                lines += paragraph(escape(self._flag.help), width, "quiet")
        keys = "enter takes it, ↑↓ choose, esc leaves it as it is"
        if not self._choices:
            steps = "↑↓ step it, " if isinstance(self._now, int | float) else ""
            keys = f"enter takes it, {steps}empty removes the flag, esc leaves it as it is"
        return lines + paragraph(keys, width, "quiet")

    def _complain(self, sentence: str) -> None:
        if sentence != self._error:
            self._error = sentence
            self.query_one("#body", Rows).rebuild()

    def action_move(self, by: int) -> None:
        if self._choices:
            self._chosen = (self._chosen + by) % len(self._choices)
            self.query_one("#choices", Rows).rebuild()
            return
        box = self.query_one(Input)
        try:
            now = parse(self._knob, box.value, self._flag, self._old)
        except ValueError:
            return
        box.value = shown(next_value(self._knob, now, by < 0, self._flag))
        box.cursor_position = len(box.value)

    def action_take(self) -> None:
        if self._choices:
            self.dismiss(self._choices[self._chosen])

    @on(Input.Changed)
    def _look(self, event: Input.Changed) -> None:
        try:
            parse(self._knob, event.value, self._flag, self._old)
        except ValueError as error:
            self._complain(str(error))
        else:
            self._complain("")

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        try:
            new = parse(self._knob, event.value, self._flag, self._old)
        except ValueError as error:
            self._complain(str(error))
            return
        self.dismiss(Unset if new is None else new)

    def action_cancel(self) -> None:
        self.dismiss(None)


def _choices(known: object, flag: FlagInfo | None) -> tuple[object, ...]:
    """What may be chosen, the last "not set"; none when the value is to be typed."""
    if flag is not None and flag.many:
        return ()
    if flag is not None and flag.choices:
        return (*flag.choices, Unset)
    if (flag is not None and flag.type == "bool") or (flag is None and isinstance(known, bool)):
        return (True, False, Unset)
    return ()
