"""Search the lines of a file in slices, forwards and backwards, without an index and without holding the file."""

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from threading import Event

from tui.sources.lineseek import line_end, tail_start

SLICE_BYTES = 128 * 1024
"""Small enough that the slowest kind of pattern holds the interpreter for some milliseconds only."""
OVERLAP_BYTES = 4 * 1024
"""In a line longer than a slice, only matches shorter than this are sure to be found."""

Pattern = bytes | re.Pattern[bytes]


def line_pattern(text: str, *, regex: bool = False, ignore_case: bool | None = None) -> re.Pattern[bytes]:
    """Pattern for what an operator typed. `ignore_case` None: only when `text` has no capital. Only ASCII letters fold.

    Raises re.error for a broken regular expression.
    """
    source = text.encode()
    fold = text == text.lower() if ignore_case is None else ignore_case
    return re.compile(source if regex else re.escape(source), re.MULTILINE | (re.IGNORECASE if fold else 0))


def as_pattern(pattern: Pattern) -> re.Pattern[bytes]:
    """Plain bytes as a pattern; a pattern in which `^` and `$` mean the ends of a line."""
    if isinstance(pattern, bytes):
        return re.compile(re.escape(pattern))
    return pattern if pattern.flags & re.MULTILINE else re.compile(pattern.pattern, pattern.flags | re.MULTILINE)


def matching_lines(fd: int, pattern: Pattern, start: int, end: int, stop: Event | None = None) -> Iterator[int]:
    """Offsets of the lines that match, in order, of those that begin in `start` (a line's start) to before `end`.

    Ends early when `stop` is set. A match must lie within one line.
    """
    wanted = as_pattern(pattern)
    literal, fold = _literal(wanted), bool(wanted.flags & re.IGNORECASE)
    position = line_start = start
    while position < end and not (stop and stop.is_set()):
        if position > start:
            time.sleep(0)  # whoever waits for the interpreter, the screen above all, has it now
        asked = min(SLICE_BYTES, end - position)
        block = os.pread(fd, asked, position)
        if not block:  # cut meanwhile
            return
        at_end = len(block) < asked or position + asked == end
        length = len(block) if at_end else block.rfind(b"\n") + 1
        if length:
            absent = literal is not None and literal not in (block.lower() if fold else block)
            for hit in () if absent else _hits(wanted, block[:length], position > line_start):
                yield position + hit if hit else line_start
            position = line_start = position + length
            if len(block) < asked:
                return
        elif _in_fragment(wanted, block, position > line_start):
            yield line_start
            position = line_start = line_end(fd, position + asked, end) + 1
        else:
            position += asked - OVERLAP_BYTES


def last_matching_line(
    fd: int, pattern: Pattern, end: int, *, origin: int = 0, stop: Event | None = None
) -> int | None:
    """Offset of the last matching line that begins before `end`, itself a line's start or the end of the file."""
    wanted = as_pattern(pattern)
    while end > origin and not (stop and stop.is_set()):
        start = tail_start(fd, max(origin, end - SLICE_BYTES) + 1, 1, origin)
        hits = deque(matching_lines(fd, wanted, start, end, stop), maxlen=1)
        if hits:
            return None if stop and stop.is_set() else hits[0]
        end = start
    return None


def _literal(pattern: re.Pattern[bytes]) -> bytes | None:
    """The text that a pattern without special characters stands for, in lower case where case does not count.

    Looking for bytes is some ten times as fast as a pattern that ignores case.
    """
    text = re.sub(rb"\\(.)", rb"\1", pattern.pattern, flags=re.DOTALL)
    if re.escape(text) != pattern.pattern or pattern.flags & re.VERBOSE:
        return None
    return text.lower() if pattern.flags & re.IGNORECASE else text


def _in_fragment(pattern: re.Pattern[bytes], fragment: bytes, inside: bool) -> bool:
    """Whether a piece of a long line matches. Its ends are not the line's, so matches there are left to the overlap."""
    return any(match.end() < len(fragment) for match in pattern.finditer(fragment, int(inside)))


def _hits(pattern: re.Pattern[bytes], text: bytes, inside: bool) -> Iterator[int]:
    """Starts of the matching lines in `text`. `inside`: it begins inside a line, where `^` must not match."""
    position = int(inside)
    while position < len(text) and (match := pattern.search(text, position)):
        start = text.rfind(b"\n", 0, match.start()) + 1
        if start == len(text):
            return
        stop = text.find(b"\n", match.start())
        stop = len(text) if stop < 0 else stop
        # A pattern such as \s+ runs over the line's end: then the line must match alone.
        if match.end() <= stop or pattern.search(text[start:stop]):
            yield start
        position = stop + 1
