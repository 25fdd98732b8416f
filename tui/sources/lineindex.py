"""Random access to the lines of a log file of any size: an index of newline counts, and pread for what is on screen.

The index holds one number per 64 KiB of file (1 GiB: 128 KiB of memory, whatever the lines' length), because counting
newlines in a block that is read anyway is cheaper than keeping every line's offset. Text is never held.
"""

import os
from array import array
from bisect import bisect_left
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from tui.sources.linesearch import Pattern, last_matching_line, matching_lines
from tui.sources.lineseek import BLOCK_BYTES, Row, long_line, nth_newline, rows_from, tail_start
from tui.sources.openlog import data_start, open_regular

GROW_BYTES = 4 * 1024 * 1024
RAW_BYTES = 1024 * 1024


class LineIndex:
    """Lines of one open file, numbered from 0. One thread calls `grow`; any thread reads meanwhile.

    When the file is cut under it, reads give fewer lines or empty ones, `grow` sets `cut`, and a new index is needed.
    Leading NULs are no part of the first line, as for `LogFollower`.
    """

    def __init__(self, fd: int) -> None:
        """Takes over `fd`, a regular file open for reading (`LogFollower.dup_fd`)."""
        self.fd = fd
        self.cut = False
        self.origin = 0
        self._blank = True
        # _before[k]: newlines ahead of block k, which begins at k * BLOCK_BYTES. Written by grow only, always before
        # _state, which is replaced as a whole: so a reader's state never points at entries that are not there yet.
        self._before = array("Q", [0])
        self._state = (0, 0, 0)  # bytes scanned, newlines in them, start of the line after the last newline

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Index of the file `path`. Raises OSError."""
        return cls(open_regular(Path(path)))

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def scanned(self) -> int:
        """Bytes indexed so far."""
        return self._state[0]

    @property
    def complete(self) -> int:
        """Number of indexed lines that end in a newline."""
        return self._state[1]

    @property
    def count(self) -> int:
        """Number of indexed lines, the unfinished last one included."""
        scanned, newlines, last_start = self._state
        return newlines + (last_start < scanned)

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self.fd).st_size

    def grow(self, limit: int = GROW_BYTES) -> bool:
        """Index at most about `limit` further bytes; True while more are waiting. Raises OSError."""
        size = self.size()
        scanned, newlines, last_start = self._state
        if size < scanned:
            self.cut = True
            return False
        stop = min(size, scanned + limit)
        while scanned < stop:
            room = BLOCK_BYTES - scanned % BLOCK_BYTES
            block = os.pread(self.fd, min(room, stop - scanned), scanned)
            if not block:
                break
            if self._blank:
                last_start = self._find_origin(scanned, block)
            found = block.count(b"\n")
            if found:
                newlines += found
                last_start = scanned + block.rfind(b"\n") + 1
            scanned += len(block)
            if scanned % BLOCK_BYTES == 0:
                self._before.append(newlines)
            self._state = (scanned, newlines, last_start)
        return scanned < size

    def read(self, first: int, lines: int) -> list[str]:
        """Texts of at most `lines` indexed lines from number `first` on."""
        return [row.text for row in self.rows(first, lines)]

    def rows(self, first: int, lines: int) -> list[Row]:
        """Like `read`, with the lines' offsets."""
        scanned, newlines, last_start = self._state
        rows: list[Row] = []
        while 0 <= first <= newlines and lines > 0:
            offset = self._start(first) if first < newlines else last_start
            # With the index the end of a very long line is known without reading through it.
            stop = self._start(first + 1) - 1 if first < newlines else scanned
            if stop - offset > BLOCK_BYTES:
                got = [Row(offset, long_line(self.fd, offset, stop))]
            else:
                got = rows_from(self.fd, offset, lines, scanned)
            if not got:
                break
            rows += got
            first += len(got)
            lines -= len(got)
        return rows

    def raw(self, first: int, stop: int, most: int = RAW_BYTES) -> bytes:
        """The bytes of the complete lines from number `first` to before `stop`, of them the last `most`."""
        newlines = self._state[1]
        end = self._start(min(stop, newlines))
        start = max(self._start(min(first, newlines)), end - most)
        return os.pread(self.fd, end - start, start)

    def tail(self, lines: int, before: int | None = None) -> list[Row]:
        """The last lines of the file as it is now, or the lines that end at offset `before` (a row's): needs no index.

        This is how the end of a file is shown, and paged upwards from, before `grow` has reached it.
        """
        end = self.size() if before is None else before
        start = tail_start(self.fd, end, lines, max(self.origin, min(end, data_start(self.fd, 0))))
        return rows_from(self.fd, start, lines, end)

    def line_at(self, offset: int) -> int | None:
        """Number of the line that holds the byte at `offset`; None where the index has not come yet."""
        if not 0 <= offset < self._state[0]:
            return None
        block = offset // BLOCK_BYTES
        data = os.pread(self.fd, offset - block * BLOCK_BYTES, block * BLOCK_BYTES)
        return self._before[block] + data.count(b"\n")

    def find(self, pattern: Pattern, line: int, *, forward: bool = True, stop: Event | None = None) -> int | None:
        """Number of the first matching indexed line from `line` on, or of the last one before `line`.

        `stop` set from another thread ends the search with None.
        """
        scanned, newlines, _ = self._state
        place = self._start(line) if line <= newlines else scanned
        if forward:
            hit = next(matching_lines(self.fd, pattern, place, scanned, stop), None)
        else:
            hit = last_matching_line(self.fd, pattern, place, origin=self.origin, stop=stop)
        return None if hit is None else self.line_at(hit)

    def _start(self, line: int) -> int:
        """Offset of the first byte after the line-th newline."""
        if line == 0:
            return self.origin
        block = bisect_left(self._before, line, 1) - 1
        data = os.pread(self.fd, BLOCK_BYTES, block * BLOCK_BYTES)
        return block * BLOCK_BYTES + nth_newline(data, line - self._before[block]) + 1

    def _find_origin(self, scanned: int, block: bytes) -> int:
        rest = block.lstrip(b"\0")
        self.origin = scanned + len(block) - len(rest)
        self._blank = not rest
        return self.origin
