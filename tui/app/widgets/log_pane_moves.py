"""Moving in the log: away from its end and back, from line to line, and over tracebacks."""

from textual import events

from tui.app.log_document import LineDocument
from tui.app.widgets.log_pane_rows import height_of
from tui.app.widgets.log_pane_view import WIDE, LogPaneView

SIDEWAYS = 16


class LogPaneMoves(LogPaneView):
    """Stands still with a cursor as soon as somebody moves, until the end is asked for."""

    def _pause(self) -> bool:
        """Stop following, with the cursor on the last line in sight; False when there is nothing to stand on."""
        if not self._placed:
            return False
        if self._following:
            self._following, self._held_back = False, False
            self._count_left = self._index.count if self._index is not None else 0
            self._shown_lines = self._lines_total()
        if self._cursor is None:
            self._cursor = self._placed[-1].entry.position
        return True

    def action_move(self, lines: int) -> None:
        if self._following and lines > 0:
            return
        was_following = self._following
        document = self._document
        if document is None or not self._pause() or self._cursor is None:
            return
        room = max(1, self.size.height - 1)
        entry = self._entry()
        if entry is None:
            return
        tall = height_of(entry, self._look()) >= room
        if tall and not was_following:
            self._window.scroll(document, lines)
            placed = self._window.rows(document, room)
            self._cursor = placed[0 if lines < 0 else -1].entry.position
        elif lines < 0:
            above = next(iter(document.backward(entry.position)), None)
            self._put_cursor(above.position if above is not None else entry.position)
        elif entry.end < document.total:
            self._put_cursor(entry.end)
        self.redraw()

    def _put_cursor(self, position: int, *, centred: bool = False) -> None:
        self._cursor = position
        if self._document is not None:
            self._window.reveal(self._document, position, max(1, self.size.height - 1), centred=centred)

    def action_page(self, pages: int) -> None:
        if self._following and pages > 0:
            return
        document = self._document
        if document is None or not self._pause():
            return
        room = max(1, self.size.height - 1)
        rows = self._window.rows(document, room)
        if pages > 0 and rows and rows[-1].entry.end >= document.total:
            self.action_bottom()
            return
        self._window.scroll(document, pages * max(1, room - 1))
        rows = self._window.rows(document, room)
        if rows:
            self._cursor = rows[0 if pages < 0 else -1].entry.position
        self.redraw()

    def action_top(self) -> None:
        if self._pause():
            self._window.top = self._window.skip = 0
            self._cursor = 0
            self.redraw()

    def action_follow(self) -> None:
        if self._following:
            self._pause()
            self.redraw()
        else:
            self.action_bottom()

    def action_wrap(self) -> None:
        self._wrap = not self._wrap
        self._left = 0
        self._laid_out_anew()

    def action_numbers(self) -> None:
        self._numbers = not (self.app.size.width >= WIDE if self._numbers is None else self._numbers)
        self._laid_out_anew()

    def action_sideways(self, steps: int) -> None:
        if self._wrap:
            return
        self._left = max(0, self._left + steps * SIDEWAYS)
        self.redraw()

    def on_resize(self) -> None:
        self._window.skip = 0
        if self._following:
            self._window.to_end()
        super().on_resize()

    def _laid_out_anew(self) -> None:
        self._window.skip = 0
        if self._following:
            self._window.to_end()
        elif self._cursor is not None:
            self._put_cursor(self._cursor)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        row = event.y - 1
        if 0 <= row < len(self._placed):
            position = self._placed[row].entry.position
            if self._pause():
                self._cursor = position
                self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._wheel(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        if not self._following:
            self._wheel(3)

    def _wheel(self, rows: int) -> None:
        document = self._document
        if document is None or not self._pause():
            return
        self._window.scroll(document, rows)
        placed = self._window.rows(document, max(1, self.size.height - 1))
        if placed and not any(self._is_here(item.entry) for item in placed):
            self._cursor = placed[-1 if rows < 0 else 0].entry.position
        self.redraw()

    def action_fold(self) -> None:
        document = self._document
        if not isinstance(document, LineDocument):
            return
        entry = self._entry()
        if entry is None:
            entry = next((item.entry for item in reversed(self._placed) if item.entry.block is not None), None)
        if entry is None or entry.block is None or not self._pause():
            return
        document.turn(entry.block)
        place = document.position_of(entry.block.first)
        if place is not None:
            self._put_cursor(place)
        self.redraw()
