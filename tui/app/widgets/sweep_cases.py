"""The cases of a sweep as rows under a cursor."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.sweep_table import NO_SWEEP, in_order, row_line, table_head
from tui.app.text import fit
from tui.app.widgets.canvas import Canvas, Line
from tui.port import SweepRow, SweepView

COPIED = 200  # cells of a line


class SweepCases(Canvas, can_focus=True):
    """Shows the cases as asked or ranked; tells when the cursor moves."""

    BINDING_GROUP_TITLE = "Cases of a sweep"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next case", id="sweep.next-case", show=False),
        Binding("up,k", "move(-1)", "Previous case", id="sweep.previous-case", show=False),
        Binding("pagedown", "page(1)", "Page of cases down", id="sweep.page-down", show=False),
        Binding("pageup", "page(-1)", "Page of cases up", id="sweep.page-up", show=False),
        Binding("home,g", "move(-999999)", "First case", id="sweep.first", show=False),
        Binding("end,G", "move(999999)", "Last case", id="sweep.last", show=False),
        Binding("s", "order", "Ranked, or as asked", id="sweep.order"),
    ]

    class Moved(Message):
        """Another case is under the cursor, or it changed."""

    def __init__(self) -> None:
        super().__init__(id="sweep-cases")
        self.ranked = False
        self.known = False
        self._view: SweepView | None = None
        self._rows: list[SweepRow] = []
        self._cursor = 0
        self._top = 0

    def show(self, view: SweepView | None) -> None:
        """Draw this sweep, None: there is none; the cursor stays on its case."""
        other = self._view is None or view is None or view.name != self._view.name
        before = None if other else self.selected
        self.known = True
        self._view = view
        self._rows = in_order(view.rows, self.ranked) if view is not None else []
        cases = [row.case for row in self._rows]
        self._cursor = cases.index(before.case) if before is not None and before.case in cases else 0
        self.action_move(0)

    @property
    def selected(self) -> SweepRow | None:
        """The case under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    def action_move(self, rows: int) -> None:
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor + rows))
        self.redraw()
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

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
        room = max(1, height - len(lines))
        self._top = max(0, min(self._top, len(self._rows) - room, self._cursor))
        self._top = max(self._top, self._cursor - room + 1)
        for position, row in enumerate(self._rows[self._top : self._top + room], self._top):
            lines.append(row_line(view, row, width, self.glyphs, self.has_focus and position == self._cursor))
        return lines

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()
