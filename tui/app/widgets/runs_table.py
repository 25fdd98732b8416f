"""The runs as rows under a cursor; marked ones are compared."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.run_table import SORTS, head_line, in_order, matching, row_line
from tui.app.text import escape, fit
from tui.app.widgets.canvas import Canvas, Line, spread
from tui.port import RunRow

EMPTY = "No runs yet. L on the dashboard launches a profile, and each launch is kept here."


class RunsTable(Canvas, can_focus=True):
    """Shows rows in the chosen order; tells when the cursor moves."""

    BINDING_GROUP_TITLE = "Table of runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next run", id="runs.next", show=False),
        Binding("up,k", "move(-1)", "Previous run", id="runs.previous", show=False),
        Binding("pagedown", "page(1)", "Page of runs down", id="runs.page-down", show=False),
        Binding("pageup", "page(-1)", "Page of runs up", id="runs.page-up", show=False),
        Binding("home,g", "move(-999999)", "First run", id="runs.first", show=False),
        Binding("end,G", "move(999999)", "Last run", id="runs.last", show=False),
        Binding("space", "mark", "Mark for the comparison", id="runs.mark"),
    ]

    class Moved(Message):
        """Another run is under the cursor, or it changed."""

    def __init__(self) -> None:
        super().__init__(id="runs-table")
        self.words = ""
        self.order = "time"
        self.marked: list[str] = []
        self._all: tuple[RunRow, ...] | None = None
        self._rows: list[RunRow] = []
        self._cursor = 0
        self._top = 0

    def show(self, rows: Sequence[RunRow]) -> None:
        """Draw these runs; the cursor stays on its run."""
        self._all = tuple(rows)
        names = {row.name for row in rows}
        self.marked = [name for name in self.marked if name in names]
        self.order_rows()

    def order_rows(self, words: str | None = None, order: str | None = None) -> None:
        """Another filter or order."""
        before = self.selected
        self.words = self.words if words is None else words
        self.order = self.order if order is None else order
        self._rows = in_order(matching(self._all or (), self.words), self.order)
        names = [row.name for row in self._rows]
        if before is not None and before.name in names:
            self._cursor = names.index(before.name)
        self.action_move(0)

    def next_order(self) -> str:
        """Sort by the next key; its name."""
        names = list(SORTS)
        self.order_rows(order=names[(names.index(self.order) + 1) % len(names)])
        return self.order

    @property
    def selected(self) -> RunRow | None:
        """The run under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    def action_move(self, rows: int) -> None:
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor + rows))
        self.redraw()
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def action_mark(self) -> None:
        row = self.selected
        if row is not None:
            self.marked = (
                [m for m in self.marked if m != row.name] if row.name in self.marked else [*self.marked, row.name]
            )
            self.action_move(1)

    def copied_text(self) -> str:
        """What `y` copies: the name of the run."""
        return self.selected.name if self.selected else ""

    def lines(self, width: int, height: int) -> list[Line]:
        lines = [self._title(width), head_line(width)]
        if not self._rows:
            words = "Reading the runs…" if self._all is None else EMPTY if not self._all else "No run has these words."
            return [*lines, [], [("  ", "plain"), (fit(words, width - 3), "quiet")]]
        room = max(1, height - len(lines))
        self._top = max(0, min(self._top, len(self._rows) - room, self._cursor))
        self._top = max(self._top, self._cursor - room + 1)
        for position, row in enumerate(self._rows[self._top : self._top + room], self._top):
            lines.append(row_line(row, width, self.glyphs, position == self._cursor, row.name in self.marked))
        return lines

    def _title(self, width: int) -> Line:
        shown, total = len(self._rows), len(self._all or ())
        left: Line = [(" Runs", "title"), (f"  {shown} of {total}" if shown != total else f"  {total}", "quiet")]
        if self.words:
            left += [("  with ", "quiet"), (fit(escape(self.words), 30), "changed")]
        if self.marked:
            left.append((f"  {len(self.marked)} marked", "changed"))
        return spread(left, [(f"by {self.order} ", "quiet")], width)
