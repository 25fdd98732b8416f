"""A log file as facts, and as something to page through: one follower feeds the grammar, one index serves the pane."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui.facts import CaptureProgress, Fact, LoadProgress, LogTail
from tui.feed.backlog import every_line, telling_lines
from tui.sglang.grammar import LogGrammar
from tui.sources.lineindex import LineIndex
from tui.sources.logfile import LogChunk, LogFollower

Clock = Callable[[], float]
LONGEST_BAR = 2000
INDEX_AHEAD_BYTES = 32 << 20
NEWS_BYTES = 128 * 1024  # read at once: some ten milliseconds of work, and little memory
QUIET_S = 0.05  # with no line for so long a traceback is complete: a dying server may print nothing after it
BACKLOG_BYTES = 1024 * 1024  # with more than this waiting the lines are sifted, as much at once


class LogReading:
    """Reads one log. `index`: the pane's view of the file that has the name now, another object after a rotation."""

    def __init__(self, path: Path, clock: Clock = time.time) -> None:
        self.path = path
        self.index: LineIndex | None = None
        self.lines_before = 0
        self._follower = LogFollower(path)
        self._grammar = LogGrammar()
        self._bars = LogGrammar()  # reads progress bars in the line that is not finished yet, and nothing else
        self._bar = ""
        self._clock = clock
        self._generation = -1
        self._old_index: LineIndex | None = None
        self._told: tuple[int, str | None] | None = None
        self._waiting = 0  # bytes that were not read yet at the last look

    def read_all(self) -> list[Fact]:
        """Everything that is in the file now, for one snapshot without a screen."""
        facts: list[Fact] = []
        while True:
            chunk, more = self._step()
            facts += more
            if not chunk.more:
                return facts + self._grammar.settle()

    def close(self) -> None:
        """Close the files."""
        self._follower.close()
        for index in (self.index, self._old_index):
            if index is not None:
                index.close()
        self.index = self._old_index = None

    def _step(self, quiet: bool = False) -> tuple[LogChunk, Sequence[Fact]]:
        """What is new. `quiet`: some time went by since the last look, and what waits for a line waits no longer."""
        behind = self._waiting > BACKLOG_BYTES
        chunk = self._follower.poll(BACKLOG_BYTES if behind else NEWS_BYTES)
        self._waiting = max(0, chunk.size - chunk.offset)
        now = self._clock()
        facts: list[Fact] = []
        for number, text in telling_lines(chunk) if behind else every_line(chunk):
            facts += self._grammar.feed(number, text, now)
        if chunk.reset is not None:
            facts += self._grammar.finish(now)
        facts += self._progress(chunk, now)
        facts += self._tail(chunk, now)
        if quiet and not chunk.parts:
            facts += self._grammar.settle()
        self._show(chunk)
        return chunk, facts

    def _progress(self, chunk: LogChunk, now: float) -> list[Fact]:
        """tqdm ends the line of its bar when it is full, minutes later: what it drew last counts now."""
        bar = chunk.partial.rstrip("\r").rpartition("\r")[2]
        if not bar or bar == self._bar or len(bar) > LONGEST_BAR:
            return []
        self._bar = bar
        found = self._bars.feed(chunk.read + 1, bar, now)
        return [fact for fact in found if isinstance(fact, LoadProgress | CaptureProgress)]

    def _tail(self, chunk: LogChunk, now: float) -> list[Fact]:
        """How far the log was read, told only when that changed: the age of the log counts from here."""
        told = (chunk.base + chunk.offset, chunk.error)
        if chunk.reset is None and told == self._told:
            return []
        self._told = told
        reset = chunk.reset.value if chunk.reset else None
        return [LogTail(at=now, lines=chunk.read, bytes=chunk.offset, reset=reset, error=chunk.error)]

    def _show(self, chunk: LogChunk) -> None:
        if chunk.generation != self._generation or self.index is None:
            descriptor = self._follower.dup_fd()
            if descriptor is None:
                return
            # The pane may be reading the old index, so that one is closed only when the next one is old.
            if self._old_index is not None:
                self._old_index.close()
            self._old_index, self.index = self.index, LineIndex(descriptor)
            self._generation, self.lines_before = chunk.generation, chunk.base
        # Counting newlines is fifty times as fast as reading facts: the pane need not wait for those.
        self.index.grow(INDEX_AHEAD_BYTES)
