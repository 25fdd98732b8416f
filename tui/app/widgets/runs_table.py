"""The runs as rows under a cursor; marked ones are compared."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.app.run_table import SORTS, head_line, in_order, matching, row_line
from tui.app.text import escape, fit
from tui.app.widgets.canvas import Line, spread
from tui.app.widgets.cursor_rows import CursorRows, moves
from tui.port import RunRow

EMPTY = "No runs yet. L on the dashboard launches a profile, and each launch is kept here."


class RunsTable(CursorRows[RunRow]):
    """Shows rows in the chosen order."""

    BINDING_GROUP_TITLE = "Table of runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        *moves("runs", "run"),
        Binding("space", "mark", "Mark for the comparison", id="runs.mark"),
    ]

    def __init__(self) -> None:
        super().__init__(id="runs-table")
        self.words = ""
        self.order = "time"
        self.marked: list[str] = []
        self._all: tuple[RunRow, ...] | None = None

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
        rows = in_order(matching(self._all or (), self.words), self.order)
        names = [row.name for row in rows]
        self.place(rows, names.index(before.name) if before is not None and before.name in names else None)

    def next_order(self) -> str:
        """Sort by the next key; its name."""
        names = list(SORTS)
        self.order_rows(order=names[(names.index(self.order) + 1) % len(names)])
        return self.order

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
        for row, here in self.seen(height - len(lines)):
            lines.append(row_line(row, width, self.glyphs, here, row.name in self.marked))
        return lines

    def _title(self, width: int) -> Line:
        shown, total = len(self._rows), len(self._all or ())
        left: Line = [(" Runs", "title"), (f"  {shown} of {total}" if shown != total else f"  {total}", "quiet")]
        if self.words:
            left += [("  with ", "quiet"), (fit(escape(self.words), 30), "changed")]
        if self.marked:
            left.append((f"  {len(self.marked)} marked", "changed"))
        return spread(left, [(f"by {self.order} ", "quiet")], width)
