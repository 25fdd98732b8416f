"""Under which name the changed knobs are saved: the profile's own, or a new one."""

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.screens.dialog_lines import difference, paragraph
from tui.app.text import fit
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.snapshot import Snapshot


class SaveProfile(ModalScreen[str]):
    """Dismisses with the name, or with None."""

    BINDING_GROUP_TITLE = "Saving a profile"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="save.cancel")]

    def __init__(self, snapshot: Snapshot, pending: Mapping[str, object]) -> None:
        super().__init__()
        self._snapshot, self._pending = snapshot, pending

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(self._head)
            yield Input(self._snapshot.profile or "", id="save-input", compact=True)
            yield Rows(self._tail, id="body")

    def on_mount(self) -> None:
        box = self.query_one(Input)
        box.cursor_blink = False
        box.focus()

    def _head(self, width: int) -> list[Line]:
        lines: list[Line] = [[(fit(" Save the knobs as profile", width), "title")], []]
        return [*lines, *difference(self._snapshot, self._pending, width), []]

    def _tail(self, width: int) -> list[Line]:
        words = (
            "Under its own name the profile's file is changed and its comments stay; another name makes a new profile. "
            "enter saves, esc does not."
        )
        return [[], *paragraph(words, width, "quiet")]

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        self.dismiss(None)
