"""The launch flags in force, and what the operator wants them to be at the next start."""

from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.text import escape, fit, pad, value, width_of, wrap
from tui.app.widgets.canvas import Canvas, Line, spread
from tui.snapshot import Knob, Snapshot

HEADED_ROWS = 10  # from here on there is room for the groups' titles
TITLE = "- "  # before a group's title; no flag begins so
ORIGIN = {"profile": "", "server": "auto", "command line": "cli"}


class Knobs(Canvas, can_focus=True):
    """A list with a cursor. It changes nothing itself: it posts what the operator asks for."""

    BINDING_GROUP_TITLE = "Knobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next knob", id="knob.next", show=False),
        Binding("up,k", "move(-1)", "Previous knob", id="knob.previous", show=False),
        Binding("pagedown,space", "page(1)", "Page down", id="knob.page-down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", id="knob.page-up", show=False),
        Binding("home,g", "move(-9999)", "First knob", id="knob.first", show=False),
        Binding("end,G", "move(9999)", "Last knob", id="knob.last", show=False),
        Binding("enter", "edit", "Edit the knob", id="knob.edit", show=False),
        Binding("plus,equals_sign", "step(1)", "Step the knob up", id="knob.up", show=False),
        Binding("minus", "step(-1)", "Step the knob down", id="knob.down", show=False),
        Binding("slash", "search", "Find a flag among all", id="knob.search", key_display="/", show=False),
        Binding("d", "default", "Back to what is in force, then to SGLang's default", id="knob.default", show=False),
        Binding("i", "explain", "What this knob is", id="knob.explain", show=False),
    ]

    class Asked(Message):
        """The operator wants something done with a knob. `what`: "edit", "step", "default" or "explain"."""

        def __init__(self, what: str, name: str, by: int = 0) -> None:
            super().__init__()
            self.what, self.name, self.by = what, name, by

    class Search(Message):
        """The operator wants to find a flag that is not listed."""

    def __init__(self) -> None:
        super().__init__(id="knobs")
        self._knobs: tuple[Knob, ...] = ()
        self._pending: Mapping[str, object] = {}
        self._names: list[str] = []
        self._groups: list[tuple[str, list[str]]] = []
        self._cursor = 0
        self._top = 0

    def show(self, snapshot: Snapshot, pending: Mapping[str, object]) -> None:
        """Draw the knobs in force and the pending changes."""
        if (snapshot.knobs, pending) == (self._knobs, self._pending) and self._lines:
            return
        self._knobs, self._pending = snapshot.knobs, dict(pending)
        chosen = self.selected
        names = [knob.name for knob in self._knobs]
        names += [name for name in pending if name not in names]
        self._groups = _grouped(names)
        self._names = [name for _, members in self._groups for name in members]
        if chosen in self._names:
            self._cursor = self._names.index(chosen)
        self._cursor = max(0, min(self._cursor, len(self._names) - 1))
        self.redraw()

    @property
    def selected(self) -> str | None:
        """The name of the knob under the cursor."""
        return self._names[self._cursor] if self._names else None

    def select(self, name: str) -> None:
        """Put the cursor on a knob."""
        if name in self._names:
            self._cursor = self._names.index(name)
            self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("edit", "step", "search", "default"):
            return not self.read_only
        return True

    def action_move(self, rows: int) -> None:
        self._cursor = max(0, min(len(self._names) - 1, self._cursor + rows))
        self.redraw()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def action_edit(self) -> None:
        self._ask("edit")

    def action_step(self, by: int) -> None:
        self._ask("step", by)

    def action_default(self) -> None:
        self._ask("default")

    def action_explain(self) -> None:
        self._ask("explain")

    def action_search(self) -> None:
        self.post_message(self.Search())

    def _ask(self, what: str, by: int = 0) -> None:
        if self.selected:
            self.post_message(self.Asked(what, self.selected, by))

    def lines(self, width: int, height: int) -> list[Line]:
        rows = max(0, height - 1)
        if not self._names:
            words = "None are known before a launch."
            if not self.read_only:
                words += " / finds a flag and sets it for the next start."
            return [self._title(width, ""), *([(" ", "plain"), (line, "quiet")] for line in wrap(words, width - 2))]
        table = self._table(headed=rows >= HEADED_ROWS)
        at = table.index(self.selected)
        self._top = max(0, min(self._top, len(table) - rows))
        if at <= self._top:
            self._top = max(0, at - (1 if at and table[at - 1] not in self._names else 0))
        elif rows and at >= self._top + rows:
            self._top = at - rows + 1
        shown = table[self._top : self._top + rows]
        in_force = {knob.name: knob for knob in self._knobs}
        drawn = [name for name in shown if name in self._names]
        told = f"{len(drawn)} of {len(self._names)} " if len(drawn) < len(self._names) else ""
        return [
            self._title(width, told),
            *(
                self._row(row, in_force.get(row), width) if row in self._names else [(f" {row}", "faint")]
                for row in shown
                if row is not None
            ),
        ]

    def _table(self, headed: bool) -> list[str | None]:
        """Names in order; with room for it each group under its title."""
        if not headed:
            return list(self._names)
        return [row for group, members in self._groups for row in (f"{TITLE}{group}", *members)]

    def _title(self, width: int, told: str) -> Line:
        left: Line = [(" Knobs", "title")]
        if self._pending:
            right: Line = [(f"{len(self._pending)} changed, ", "changed"), ("R", "key"), (" restarts ", "quiet")]
        else:
            right = [(told, "quiet")] if self.read_only else [(told, "quiet"), ("F", "key"), (" finds ", "quiet")]
        return spread(left, right, width)

    def _row(self, name: str, knob: Knob | None, width: int) -> Line:
        here = self.has_focus and name == self.selected
        changed = name in self._pending
        old = value(knob.value) if knob else value(None)
        words = f"{old} {self.glyphs.arrow} {value(self._pending[name])}" if changed else old
        origin = ORIGIN.get(knob.origin, "") if knob and not changed else ""
        tail = f" {origin}" if origin else ""
        room = width - 2 - len(tail)
        longest = max((width_of(escape(other)) for other in self._names), default=0)
        name_room = min(longest, max(room * 3 // 5, room - width_of(words) - 1))
        shown_name = pad(escape(name, 64), name_room)
        return [
            (self.glyphs.cursor if here else " ", "key"),
            (shown_name, "cursor" if here else "quiet"),
            (" ", "plain"),
            (_fit_value(words, room - name_room), "changed" if changed else "strong"),
            (tail, "faint"),
        ]


def _grouped(names: list[str]) -> list[tuple[str, list[str]]]:
    if not names:
        return []
    from tui.app.knob_values import grouped  # the catalogue of flags comes with it: not for a frame without knobs

    return grouped(names)


def _fit_value(words: str, room: int) -> str:
    """Of a path the end tells more than the beginning."""
    if words.startswith("/") and width_of(words) > room >= 2:
        return "…" + fit(words[::-1], room - 1, "")[::-1]
    return fit(words, room)
