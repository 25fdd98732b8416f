"""Line positions and rows of a file by pread, without an index and without holding more than a few blocks."""

import os

from tui.frozen import frozen
from tui.sources.linetext import CAP_BYTES, KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, clip, line_text

BLOCK_BYTES = 64 * 1024


@frozen(kw_only=False)
class Row:
    """A line at a place in a file: `offset` of its first byte, and its text, clipped like any line's."""

    offset: int
    text: str


def nth_newline(data: bytes, n: int) -> int:
    """Position of the n-th newline in `data`, n from 1 to the number of newlines there. Halves instead of walking."""
    low, high = 0, len(data)
    while high - low > 1:
        middle = (low + high) // 2
        left = data.count(b"\n", low, middle)
        if n <= left:
            high = middle
        else:
            n -= left
            low = middle
    return low


def tail_start(fd: int, end: int, lines: int, origin: int = 0) -> int:
    """Start of the `lines` last lines of what lies between `origin` and `end`, reading backwards from `end`.

    An unfinished last line counts as one. Fewer lines than asked for: `origin`.
    """
    if lines <= 0 or end <= origin:
        return end
    # The newline that ends the last line starts no further one.
    stop = end - 1 if os.pread(fd, 1, end - 1) == b"\n" else end
    wanted = lines
    while stop > origin:
        start = max(origin, stop - BLOCK_BYTES)
        block = os.pread(fd, stop - start, start)
        found = block.count(b"\n")
        if found >= wanted:
            return start + nth_newline(block, found - wanted + 1) + 1
        wanted -= found
        stop = start
    return origin


def line_end(fd: int, offset: int, end: int) -> int:
    """Position of the first newline at or after `offset`, or `end`."""
    while offset < end:
        block = os.pread(fd, min(BLOCK_BYTES, end - offset), offset)
        if not block:
            break
        found = block.find(b"\n")
        if found >= 0:
            return offset + found
        offset += len(block)
    return end


def long_line(fd: int, start: int, end: int) -> str:
    """Text of the line from `start` to before `end`, read at both ends only where it is over the cap."""
    if end - start <= CAP_BYTES:
        return line_text(os.pread(fd, end - start, start))
    head = os.pread(fd, KEPT_HEAD_BYTES, start)
    tail = os.pread(fd, KEPT_TAIL_BYTES, end - KEPT_TAIL_BYTES)
    if len(tail) < KEPT_TAIL_BYTES:  # cut meanwhile
        return line_text(head.partition(b"\n")[0])
    return clip(head, tail, end - start)


def rows_from(fd: int, offset: int, lines: int, end: int) -> list[Row]:
    """At most `lines` rows from the line that starts at `offset`; nothing at or after `end` is read.

    Fewer when the file was cut meanwhile.
    """
    rows: list[Row] = []
    while len(rows) < lines and offset < end:
        block = os.pread(fd, min(BLOCK_BYTES, end - offset), offset)
        if not block:
            break
        start = 0
        while len(rows) < lines and (stop := block.find(b"\n", start)) >= 0:
            rows.append(Row(offset + start, line_text(block[start:stop])))
            start = stop + 1
        at_end = len(rows) < lines and start < len(block) and offset + len(block) >= end
        if start == 0 or at_end:  # a line longer than the block, or the unfinished last one
            stop = line_end(fd, offset + start, end)
            rows.append(Row(offset + start, long_line(fd, offset + start, stop)))
            start = stop + 1 - offset
        offset += start
    return rows
