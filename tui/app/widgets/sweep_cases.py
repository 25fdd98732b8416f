"""The cases of a sweep as rows under a cursor."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.app.sweep_table import NO_SWEEP, in_order, row_line, table_head
from tui.app.text import fit
from tui.app.widgets.canvas import Line
from tui.app.widgets.cursor_rows import CursorRows, moves
from tui.port import SweepRow, SweepView

COPIED = 200  # cells of a line


class SweepCases(CursorRows[SweepRow]):
    """Shows the cases as asked or ranked."""

    BINDING_GROUP_TITLE = "Cases of a sweep"
    BINDINGS: ClassVar[list[BindingType]] = [
        *moves("sweep", "case"),
        Binding("s", "order", "Ranked, or as asked", id="sweep.order"),
    ]

    def __init__(self) -> None:
        super().__init__(id="sweep-cases")
        self.ranked = False
        self.known = False
        self._view: SweepView | None = None

    def show(self, view: SweepView | None) -> None:
        """Draw this sweep, None: there is none; the cursor stays on its case."""
        other = self._view is None or view is None or view.name != self._view.name
        before = None if other else self.selected
        self.known = True
        self._view = view
        rows = in_order(view.rows, self.ranked) if view is not None else []
        cases = [row.case for row in rows]
        self.place(rows, cases.index(before.case) if before is not None and before.case in cases else 0)

    def action_order(self) -> None:
        self.ranked = not self.ranked
        self.show(self._view)

    def copied_text(self) -> str:
        """What `y` copies: the whole table."""
        view = self._view
        if view is None:
            return ""
        lines = [table_head(view, COPIED), *(row_line(view, row, COPIED, self.glyphs, False) for row in self._rows)]
        return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)

    def lines(self, width: int, height: int) -> list[Line]:
        view = self._view
        if view is None:
            words = NO_SWEEP if self.known else ("Reading the sweeps…",)
            return [[], *([("  ", "plain"), (fit(text, width - 3), "quiet")] for text in words)]
        lines = [table_head(view, width)]
        for row, here in self.seen(height - len(lines)):
            lines.append(row_line(view, row, width, self.glyphs, self.has_focus and here))
        return lines
