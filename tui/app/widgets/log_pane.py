"""The log: follows its end at little cost, or stands still to be read, searched and filtered."""

import time
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui.app.log_document import ByteDocument, Entry, LineDocument
from tui.app.log_filter import LineFilter
from tui.app.log_lines import harmless
from tui.app.log_prompt import LogPrompt
from tui.app.log_query import Query, line_filter, parse
from tui.app.log_view import Placed, Window
from tui.app.widgets.canvas import Canvas, Line
from tui.app.widgets.log_pane_rows import Look, Standing, height_of, row_line, title_line
from tui.app.widgets.log_pane_work import LogWork
from tui.port import LogView
from tui.snapshot import Snapshot
from tui.sources.lineindex import LineIndex

TICK_S = 0.1
STREAM_TICKS = 5  # so many ticks with news after one another are a stream, which is drawn twice a second
REST_S = 0.45
FAR_BYTES = 4 * 1024 * 1024  # so much is not indexed yet: the end is shown by offsets
WIDE = 150  # columns from which line numbers are shown unasked
SIDEWAYS = 16
MOST_COPIED = 20_000  # characters of one line
HINT = "text, /regular expression/, !not; capitals count when there is one; empty: none"


class LogPane(Canvas, can_focus=True):
    """Draws the window of a `LogView` and nothing of the rest. Its positions are lines of the log's index."""

    BINDING_GROUP_TITLE = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next line", id="log.down", show=False),
        Binding("up,k", "move(-1)", "Previous line", id="log.up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", id="log.page-down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", id="log.page-up", show=False),
        Binding("home,g", "top", "The first line", id="log.top", show=False),
        Binding("end,G", "bottom", "The end, and follow it", id="log.bottom", show=False),
        Binding("right", "sideways(1)", "Scroll right", id="log.right", show=False),
        Binding("left", "sideways(-1)", "Scroll left", id="log.left", show=False),
        Binding("enter,z", "fold", "Fold or unfold the traceback", id="log.fold", show=False),
        Binding("h", "hide_polls", "Hide or show the requests of monitors", id="log.hide-polls", show=False),
        Binding("number_sign", "numbers", "Line numbers", id="log.numbers", key_display="#", show=False),
        Binding("escape", "clear", "End the filter, then the search", id="log.clear", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._log: LogView | None = None
        self._index: LineIndex | None = None
        self._document: LineDocument | ByteDocument | None = None
        self._errors: tuple[int, ...] = ()
        self._following = True
        self._held_back = False
        self._seen = (0, 0)  # bytes indexed, positions, when last drawn
        self._came = (0, 0)  # the same at the last tick
        self._streaming = 0  # ticks with news after one another
        self._drew_new_at = -1e9
        self._count_left = 0  # lines there were when following ended
        self._cursor: int | None = None
        self._wrap = False
        self._left = 0
        self._numbers: bool | None = None
        self._hides_polls = False
        self._query: Query | None = None
        self._filter: Query | None = None
        self._busy = ""
        self._window = Window(lambda entry: height_of(entry, self._look()))
        self._placed: list[Placed] = []
        self._shown_lines = 0
        self._work = LogWork(self)

    # ---- what there is to show

    def show_log(self, log: LogView | None) -> None:
        """Follow this log from now on."""
        self._log = log
        self._adopt(log.index if log is not None else None)
        self.redraw()

    def refresh_log(self, snapshot: Snapshot) -> None:
        """What else is known: where the errors are."""
        self._errors = snapshot.error_lines
        self._tick()
        self._shown_lines = self._lines_total()
        self.redraw()

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._tick)

    def on_unmount(self) -> None:
        self._work.stop()

    def _adopt(self, index: LineIndex | None) -> None:
        self._work.stop()
        self._index, self._document, self._cursor = index, None, None
        self._following, self._busy, self._shown_lines = True, "", 0
        self._window.to_end()
        if index is not None:
            self._open(index)
            self._shown_lines = self._lines_total()

    def _open(self, index: LineIndex) -> None:
        self._seen = (-1, -1)
        if index.size() - index.scanned > FAR_BYTES:
            self._document = ByteDocument(index)
            return
        passed = None
        if wanted := line_filter(self._filter, self._hides_polls):
            passed = LineFilter(index, *wanted)
            self._work.filter(passed)
        self._document = LineDocument(index, passed, folding=self._filter is None)

    def _tick(self) -> None:
        """Look whether there is something new; nothing is drawn when there is not."""
        log = self._log
        if log is None:
            return
        if log.index is not self._index:
            self._adopt(log.index)
            self.redraw()
        index, document = self._index, self._document
        if index is None or document is None:
            return
        if isinstance(document, ByteDocument):
            if index.size() - index.scanned <= FAR_BYTES:
                self._by_lines(index)
            elif self._following:
                document.refresh()
        elif document.passed is not None:
            self._work.keep_up(document.passed)
        seen = (index.scanned, self._total())
        self._streaming = self._streaming + 1 if seen != self._came else 0
        self._came = seen
        if self._following and (seen != self._seen or self._held_back) and self._is_due(time.monotonic()):
            self.redraw()

    def _is_due(self, now: float) -> bool:
        """A line that comes alone is drawn at once; of a stream each drawing would cost the same and show less."""
        if self._streaming > STREAM_TICKS and now - self._drew_new_at < REST_S:
            return False
        self._drew_new_at = now
        return True

    def _by_lines(self, index: LineIndex) -> None:
        """The index has come near the end: from offsets to line numbers."""
        top, cursor = index.line_at(self._window.top), None
        if self._cursor is not None:
            cursor = index.line_at(self._cursor)
        self._open(index)
        if top is None or not self._go_on_at(top, cursor):
            self.action_bottom()
        self._count_left, self._shown_lines = index.count, self._lines_total()
        self.redraw()

    def _go_on_at(self, top: int, cursor: int | None) -> bool:
        document = self._document
        if self._following or not isinstance(document, LineDocument):
            return self._following
        place = document.position_of(top)
        if place is None:
            return False
        self._window.top, self._window.skip = place, 0
        self._cursor = place if cursor is None else document.position_of(cursor)
        return True

    def _total(self) -> int:
        return self._document.total if self._document is not None else 0

    def _lines_total(self) -> int:
        return self._lines_before() + (self._index.count if self._index is not None else 0)

    def _lines_before(self) -> int:
        return self._log.lines_before if self._log is not None else 0

    # ---- drawing

    def lines(self, width: int, height: int) -> list[Line]:
        room = max(1, height - 1)
        document = self._document
        if document is None or (not document.total and self._filter is None):
            return [[(" Log", "title")], *([[(" ", "plain"), (text, "quiet")] for text in self._nothing()][:room])]
        scanned = self._index.scanned if self._index is not None else 0
        self._seen = (scanned, document.total)
        if self._following:
            self._placed, self._held_back = self._window.follow(document, room, time.monotonic())
            if self._held_back:
                return [title_line(self._standing(), width), *self._lines[1:]]
        else:
            self._placed = self._window.rows(document, room)
        look = self._look()
        rows = [row_line(item, look, self._is_here(item.entry)) for item in self._placed]
        if not rows:
            rows = [[(" ", "plain"), ("No line passes the filter (yet). & and an empty text end it.", "quiet")]]
        return [title_line(self._standing(), width), *rows]

    def _nothing(self) -> list[str]:
        if self._log is None:
            return [
                "No log is followed. L launches a profile and follows its log;",
                "specdeck attach --log FILE follows one that is there already.",
            ]
        return ["The log is empty so far. Its lines appear here as they are written."]

    def _look(self) -> Look:
        wide = self.app.size.width >= WIDE
        numbers = wide if self._numbers is None else self._numbers
        gutter = len(str(self._shown_lines)) + 2 if numbers and isinstance(self._document, LineDocument) else 0
        shown = self._query.shown if self._query is not None else None
        if shown is None and self._filter is not None:
            shown = self._filter.shown
        left = 0 if self._wrap else self._left
        return Look(self.glyphs, self.size.width, self._wrap, left, gutter, self._lines_before(), shown)

    def _is_here(self, entry: Entry) -> bool:
        return self._cursor is not None and entry.position <= self._cursor < entry.end

    def _standing(self) -> Standing:
        index, document = self._index, self._document
        indexing = None
        if index is not None and isinstance(document, ByteDocument):
            indexing = index.scanned / max(1, index.size())
        entry = self._entry()
        at = None if entry is None or entry.line is None else self._lines_before() + entry.line + 1
        passed = self._total() if self._filter is not None else 0
        return Standing(
            following=self._following,
            new=max(0, self._shown_lines - self._lines_before() - self._count_left) if not self._following else 0,
            lines=self._shown_lines,
            at=at,
            indexing=indexing,
            filter=self._filter.typed if self._filter else "",
            passed=passed,
            hides_polls=self._hides_polls,
            search=self._query.typed if self._query else "",
            busy=self._busy,
        )

    def _entry(self) -> Entry | None:
        """The entry under the cursor."""
        if self._cursor is None or self._document is None:
            return None
        return next(iter(self._document.forward(self._cursor)), None)

    # ---- moving

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

    def action_bottom(self) -> None:
        self._following, self._cursor = True, None
        self._window.to_end()
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

    # ---- tracebacks and errors

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

    def action_next_error(self) -> None:
        self._go_to_error(1)

    def action_previous_error(self) -> None:
        self._go_to_error(-1)

    def _go_to_error(self, way: int) -> None:
        before = self._lines_before()
        errors = sorted({line for line in self._errors if line > before})
        if not errors:
            self._say("No error has been seen in this log.")
            return
        entry = self._entry()
        here = before + entry.line + 1 if entry is not None and entry.line is not None else self._lines_total() + 1
        # The errors inside a traceback are one record with it.
        end = before + entry.block.last + 1 if entry is not None and entry.block is not None and way > 0 else here
        beyond = [line for line in errors if (line > end if way > 0 else line < here)]
        line = (beyond or errors)[0 if way > 0 else -1]
        where = "" if beyond else ", from the other end again"
        if self.goto_line(line):
            self._say(f"Error {errors.index(line) + 1} of {len(errors)}, line {line}{where}.")

    def goto_line(self, number: int) -> bool:
        """Stand on line `number` as the facts count (from 1); False where it cannot be shown."""
        document, line = self._document, number - self._lines_before() - 1
        if not isinstance(document, LineDocument):
            self._say("The log is still being indexed; try again in a moment.")
            return False
        if document.position_of(line) is None and self._filter is not None:
            self._set_filter(None)
        elif document.position_of(line) is None and self._hides_polls:
            self.action_hide_polls()
        document = self._document
        place = document.position_of(line) if isinstance(document, LineDocument) else None
        if place is None or not isinstance(document, LineDocument):
            self._say(f"Line {number} is not in this log.")
            return False
        if not self._placed:
            self._placed = self._window.rows(document, 1)
        self._pause()
        entry = document.entry_at(place)
        self._put_cursor(entry.position if entry is not None and entry.folded else place, centred=True)
        self.redraw()
        return True

    # ---- search and filter

    def action_search(self) -> None:
        before = self._query.typed if self._query else ""
        self.app.push_screen(LogPrompt("search", HINT, before), self._searched)

    def _searched(self, typed: str | None) -> None:
        if typed is None:
            return
        try:
            self._query = parse(typed)
        except ValueError as error:
            self._say(str(error), "error")
            return
        if self._query is None:
            self._work.stop_search()
            self.redraw()
            return
        self._find(forward=not self._following, here=True)

    def action_next_match(self) -> None:
        self._find(forward=True)

    def action_previous_match(self) -> None:
        self._find(forward=False)

    def _find(self, *, forward: bool, here: bool = False) -> None:
        document = self._document
        if self._query is None:
            self._say("Nothing is searched for. / starts a search.")
        elif not isinstance(document, LineDocument):
            self._say("The log is still being indexed; try again in a moment.")
        else:
            entry = self._entry()
            line = entry.line if entry is not None and entry.line is not None else document.index.count
            line += 1 if forward != here else 0
            self._work.find(document, self._query, line, forward)
            self.redraw()

    def found(self, document: LineDocument, line: int | None, around: bool) -> None:
        """A search has ended at this line of the index, or nowhere; `around`: beyond an end of the log."""
        if document is not self._document or self._query is None:
            return
        if line is None:
            self._say(f"{self._query.typed} is nowhere in the log.", "warning")
            self.redraw()
        elif self.goto_line(self._lines_before() + line + 1) and around:
            self._say("The search went on from the other end.")

    def working(self, what: str) -> None:
        """What takes its time now, for the title; nothing when it is done."""
        if what != self._busy:
            self._busy = what
            self.redraw()

    def action_filter(self) -> None:
        before = self._filter.typed if self._filter else ""
        self.app.push_screen(LogPrompt("filter", HINT, before), self._filtered)

    def _filtered(self, typed: str | None) -> None:
        if typed is None:
            return
        try:
            self._set_filter(parse(typed))
        except ValueError as error:
            self._say(str(error), "error")

    def _set_filter(self, query: Query | None) -> None:
        self._filter = query
        self._reopen()

    def action_hide_polls(self) -> None:
        self._hides_polls = not self._hides_polls
        self._reopen()

    def _reopen(self) -> None:
        """Other lines pass now: stay at the line under the cursor where it is among them, else follow."""
        entry = self._entry()
        index = self._index
        self._work.stop()
        if index is None:
            return
        self._open(index)
        line = entry.line if entry is not None else None
        place = None
        if line is not None and isinstance(self._document, LineDocument):
            place = self._document.position_of(line)
        if place is None:
            self.action_bottom()
        else:
            self._put_cursor(place, centred=True)
            self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape is the screen's unless there is a filter or a search to end."""
        return action != "clear" or self._filter is not None or self._query is not None

    def action_clear(self) -> None:
        if self._filter is not None:
            self._set_filter(None)
        else:
            self._work.stop_search()
            self._query = None
            self.redraw()

    # ---- elsewhere

    def copied_text(self) -> str:
        """What y copies: the line or the whole traceback under the cursor, else what is in sight."""
        entry = self._entry()
        if entry is None:
            shown = [item.entry for item in self._placed if item.row == 0]
            return "\n".join(harmless(one.text, MOST_COPIED) for one in shown)
        if entry.block is None or not isinstance(self._document, LineDocument):
            return harmless(entry.text, MOST_COPIED)
        texts = self._document.index.read(entry.block.first, entry.block.last - entry.block.first + 1)
        return "\n".join(harmless(text, MOST_COPIED) for text in texts)

    def _say(self, text: str, severity: str = "information") -> None:
        say = getattr(self.screen, "say", None)
        if callable(say):
            say(text, severity)
