"""All flags of the server's SGLang with their help, narrowed as one types; enter edits the chosen one."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.glyphs import glyphs_of
from tui.app.knob_values import search
from tui.app.text import escape, fit, pad, value, width_of, wrap
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import FlagInfo

HELP_ROWS = 3


class FlagSearch(ModalScreen[str]):
    """Dismisses with the flag's name, or with None. `in_force`: values of the flags that are set."""

    BINDING_GROUP_TITLE = "Flag search"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Close", id="flags.close"),
        Binding("down", "move(1)", "Next flag", id="flags.next", show=False),
        Binding("up", "move(-1)", "Previous flag", id="flags.previous", show=False),
        Binding("pagedown", "page(1)", "Page down", id="flags.page-down", show=False),
        Binding("pageup", "page(-1)", "Page up", id="flags.page-up", show=False),
    ]

    def __init__(self, flags: Sequence[FlagInfo], in_force: Mapping[str, object]) -> None:
        super().__init__()
        known = {flag.name for flag in flags}
        self._flags = [*flags, *(FlagInfo(name) for name in in_force if name not in known)]
        self._in_force = in_force
        self._found = search(self._flags, "")
        self._cursor = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(self._head, id="flags-head")
            yield Input(placeholder="a part of the name or of its help", id="flags-input", compact=True)
            yield Rows(self._list, id="flags-list")

    def on_mount(self) -> None:
        box = self.query_one(Input)
        box.cursor_blink = False
        box.focus()

    def on_resize(self) -> None:
        self.query_one("#flags-list", Rows).rebuild()

    @property
    def _rows(self) -> int:
        return max(3, min(20, self.app.size.height - 10 - HELP_ROWS))

    def _head(self, width: int) -> list[Line]:
        told = f"{len(self._found)} of {len(self._flags)} flags"
        return [[(pad(" Find a flag", width - len(told) - 1), "title"), (told, "quiet")]]

    def _list(self, width: int) -> list[Line]:
        glyphs = glyphs_of(self.app)
        rows = self._rows
        top = max(0, min(self._cursor - rows // 2, len(self._found) - rows))
        shown = self._found[top : top + rows]
        room = min(max((width_of(flag.name) for flag in shown), default=0), width // 2)
        lines: list[Line] = []
        for at, flag in enumerate(shown, top):
            here = at == self._cursor
            set_to = value(self._in_force[flag.name]) if flag.name in self._in_force else ""
            told = fit(set_to, width // 4)
            words = fit(escape(flag.help), max(0, width - room - width_of(told) - 6))
            lines.append(
                [
                    (f" {glyphs.cursor if here else ' '} ", "key"),
                    (pad(escape(flag.name), room), "cursor" if here else "strong" if set_to else "plain"),
                    (f" {told} " if told else " ", "changed"),
                    (words, "quiet"),
                ]
            )
        if not lines:
            lines = [[(fit(" No flag has these words; one that is not listed cannot be set here.", width), "quiet")]]
        lines += [[] for _ in range(rows - len(lines))]
        return [*lines, [], *self._details(width)]

    def _details(self, width: int) -> list[Line]:
        if not self._found:
            return [[] for _ in range(HELP_ROWS + 1)]
        flag = self._found[self._cursor]
        about = f"{flag.group + ': ' if flag.group else ''}{flag.help or 'SGLang gives no help for it.'}"
        lines: list[Line] = [[(" " + line, "plain")] for line in wrap(escape(about), width - 2)[:HELP_ROWS]]
        lines += [[] for _ in range(HELP_ROWS - len(lines))]
        return [
            *lines,
            [
                (" enter ", "key"),
                ("edits it  ", "quiet"),
                ("↑↓ ", "key"),
                ("choose  ", "quiet"),
                ("esc ", "key"),
                ("closes", "quiet"),
            ],
        ]

    def _redraw(self) -> None:
        self.query_one("#flags-head", Rows).rebuild()
        self.query_one("#flags-list", Rows).rebuild()

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(len(self._found) - 1, self._cursor + by))
        self._redraw()

    def action_page(self, by: int) -> None:
        self.action_move(by * self._rows)

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self._found = search(self._flags, event.value)
        self._cursor = 0
        self._redraw()

    @on(Input.Submitted)
    def _take(self) -> None:
        if self._found:
            self.dismiss(self._found[self._cursor].name)

    def action_cancel(self) -> None:
        self.dismiss(None)
