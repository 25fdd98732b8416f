"""The numbers of the lines that pass a filter, found piece by piece on a thread while the log grows."""

import os
import re
import time
from array import array
from bisect import bisect_left
from threading import Event

from tui.sources.lineindex import LineIndex
from tui.sources.linesearch import matching_lines

STEP_BYTES = 8 * 1024 * 1024
COUNTED_BYTES = 128 * 1024
TURN_S = 0.002  # so long a thread works before it lets the screen have the interpreter


class LineFilter:
    """`lines`: numbers in `index` of the complete lines that pass, ascending. One thread at a time calls `advance`."""

    def __init__(self, index: LineIndex, pattern: re.Pattern[bytes], inverse: bool) -> None:
        self.index = index
        self.lines = array("I")
        self.stop = Event()
        self._pattern, self._inverse = pattern, inverse
        self._offset = index.origin
        self._line = 0
        self._block, self._block_at = b"", 0  # the piece of the file that was read last

    @property
    def waiting_bytes(self) -> int:
        """Bytes of complete lines that were not looked at yet, about."""
        return max(0, self._end() - self._offset)

    def advance(self, most: int = STEP_BYTES) -> bool:
        """Look at about `most` further bytes; True while there is more."""
        end = self._end()
        stop = min(end, self._offset + most)
        if stop <= self._offset:
            return False
        if stop < end:
            stop = self._line_start(stop)
        self._block = b""
        turn = time.monotonic() + TURN_S
        for hit in matching_lines(self.index.fd, self._pattern, self._offset, stop, self.stop):
            self._pass_over(hit)
            if not self._inverse:
                self.lines.append(self._line)
            self._line += 1
            self._offset = self._next_line(hit, stop)
            if time.monotonic() > turn:
                time.sleep(0)
                turn = time.monotonic() + TURN_S
        if not self.stop.is_set():
            self._pass_over(stop)
        return stop < end and not self.stop.is_set()

    def position(self, line: int) -> int:
        """Place in `lines` of the first that is not before `line`."""
        return bisect_left(self.lines, line)

    def _pass_over(self, offset: int) -> None:
        """The lines from where we are to `offset` do not match."""
        first = self._line
        while self._offset < offset and (place := self._place(self._offset, offset)) is not None:
            stop = min(len(self._block), offset - self._block_at)
            self._line += self._block.count(b"\n", place, stop)
            self._offset = self._block_at + stop
        if self._inverse:
            self.lines.extend(range(first, self._line))

    def _next_line(self, offset: int, end: int) -> int:
        while offset < end and (place := self._place(offset, end)) is not None:
            found = self._block.find(b"\n", place)
            if found >= 0:
                return self._block_at + found + 1
            offset = self._block_at + len(self._block)
        return end

    def _place(self, offset: int, end: int) -> int | None:
        """Where the byte at `offset` is in the block, which is read up to `end` at need; None beyond the file's end."""
        if not self._block_at <= offset < self._block_at + len(self._block):
            self._block = os.pread(self.index.fd, min(COUNTED_BYTES, end - offset), offset)
            self._block_at = offset
        return offset - self._block_at if self._block else None

    def _line_start(self, offset: int) -> int:
        return self._next_line(offset, self.index.scanned)

    def _end(self) -> int:
        """Where the last complete line ends."""
        index = self.index
        complete = index.complete
        if index.count > complete:
            rows = index.rows(complete, 1)
            return rows[0].offset if rows else self._offset
        return index.scanned
