"""What the log pane shows: its window of the log, its title, and when they are drawn again."""

import asyncio
import time

from tui.app.log_document import ByteDocument, Entry, LineDocument
from tui.app.log_filter import LineFilter
from tui.app.log_query import Query, line_filter
from tui.app.log_view import Placed, Window
from tui.app.pace import Pace
from tui.app.widgets.canvas import Canvas, Line
from tui.app.widgets.log_pane_rows import Look, Standing, height_of, row_line, title_line
from tui.app.widgets.log_pane_work import LogWork
from tui.port import LogView
from tui.snapshot import Snapshot
from tui.sources.lineindex import LineIndex

TICK_S = 0.1
FAR_BYTES = 4 * 1024 * 1024  # so much is not indexed yet: the end is shown by offsets
WIDE = 150  # columns from which line numbers are shown unasked


class LogPaneView(Canvas, can_focus=True):
    """Follows a log. Positions are those of its document: lines, or bytes while the index is far behind."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._log: LogView | None = None
        self._told = False  # the log says itself when it has grown
        self._index: LineIndex | None = None
        self._document: LineDocument | ByteDocument | None = None
        self._errors: tuple[int, ...] = ()
        self._following = True
        self._held_back = False
        self._seen = (0, 0)  # bytes indexed, positions, when last drawn
        self._came = (0, 0)  # the same at the last tick
        self._pace = Pace()
        self._count_left = 0  # lines there were when following ended
        self._cursor: int | None = None
        self._wrap = False
        self._left = 0
        self._numbers: bool | None = None
        self._hides_polls = False
        self._query: Query | None = None
        self._filter: Query | None = None
        self._busy = ""
        self._window = Window(lambda entry: height_of(entry, self._look()) if self._wrap else 1)
        self._placed: list[Placed] = []
        self._shown_lines = 0
        self._next_look: asyncio.TimerHandle | None = None
        self._work = LogWork(self)  # type: ignore[arg-type]  # a widget's run_worker is generic

    def show_log(self, log: LogView | None) -> None:
        """Follow this log from now on."""
        if log is self._log:
            return
        self._log = log
        listen = getattr(log, "listen", None)
        self._told = listen is not None
        if listen is not None:
            listen(self._look_out)
        self._adopt(log.index if log is not None else None)
        self.redraw()
        self._look_out()

    def refresh_log(self, snapshot: Snapshot) -> None:
        """What else is known: where the errors are."""
        self._errors = snapshot.error_lines
        self._tick(anyway=True)
        self._shown_lines = self._lines_total()
        if not (self._following and self._pace.streams(time.monotonic())):
            self.redraw()

    def on_unmount(self) -> None:
        self._work.stop()
        if self._next_look is not None:
            self._next_look.cancel()

    def _look_out(self) -> None:
        """Look for news without any of Textual's machinery, and ten times a second as long as that is needed."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        if not self.is_attached or self._log is None:
            return
        now = time.monotonic()
        if self._has_news(now):
            self.call_later(self._tick)
        if not self._told or self._waits():
            pause_s = max(TICK_S, self._pace.left_s(now)) if self._told else TICK_S
            self._next_look = asyncio.get_running_loop().call_later(pause_s, self._look_out)

    def _waits(self) -> bool:
        """Whether there is more to show than is shown."""
        log, index, document = self._log, self._index, self._document
        if log is None or index is None or log.index is not index:
            return False
        if not isinstance(document, LineDocument) or document.passed is not None:
            return True
        return self._following and (self._held_back or index.scanned != self._seen[0])

    def _has_news(self, now: float) -> bool:
        """Whether something is to be done about it now."""
        log, index, document = self._log, self._index, self._document
        if log is None or index is None or log.index is not index:
            return log is not None and log.index is not index
        if not isinstance(document, LineDocument) or document.passed is not None:
            return True
        scanned = index.scanned
        if scanned != self._came[0]:
            self._came = (scanned, self._came[1])
            self._pace.news(now)
        return self._waits() and not self._pace.rests(now)

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

    def _tick(self, anyway: bool = False) -> None:
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
        now = time.monotonic()
        if seen[0] != self._came[0]:
            self._pace.news(now)
        self._came = seen
        if self._following and (seen != self._seen or self._held_back) and self._pace.is_due(now, anyway=anyway):
            self.redraw()

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

    def action_bottom(self) -> None:
        self._following, self._cursor = True, None
        self._window.to_end()
        self.redraw()

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
        if self._log is None and self.read_only:
            return ["No log is followed."]
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

    def _say(self, text: str, severity: str = "information") -> None:
        say = getattr(self.screen, "say", None)
        if callable(say):
            say(text, severity)
