"""One line at the bottom of the screen in which the operator types what to search or filter for."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows


class LogPrompt(ModalScreen[str | None]):
    """Dismisses with the text, or with None when it was left with escape."""

    BINDING_GROUP_TITLE = "Log prompt"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", id="prompt.cancel")]

    def __init__(self, word: str, hint: str, before: str) -> None:
        super().__init__()
        self._word, self._hint, self._before = word, hint, before

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Rows(self._label, id="prompt-label")
            yield Input(self._before, placeholder=self._hint, id="prompt-input", compact=True)

    def on_mount(self) -> None:
        field = self.query_one(Input)
        field.cursor_blink = False
        field.focus()

    def _label(self, width: int) -> list[Line]:
        return [[(f" {self._word}", "key")]]

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)
