"""Reads a log of any size from a file, a compressed file or a pipe, for `specdeck doctor`.

A serving log is millions of decode lines. Only the lines that may say something reach the grammar, the last blocks and
a batch line here and there included; memory stays at a few blocks.
"""

import contextlib
import gzip
import io
import os
import stat
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

from tui.errors import SpecdeckError
from tui.sglang.bulk import interesting, sift
from tui.sources.linetext import line_text

BLOCK = 1 << 18  # what is read and what is made of it stay in a core's cache
SAMPLED = 4  # a batch line of every so many blocks is read: it says that the server went on
# A "line" beyond this is no log line: its middle is dropped.
MOST_PENDING = 4 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BATCH = b"#running-req: "
Line = tuple[int, str]


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class LogError(SpecdeckError):
    """A log that cannot be read: which, why, what to do."""


class LogReader:
    """The lines of a log that matter, as (number, text). `lines`: how many there were; `note`: how it ended early."""

    def __init__(self, name: str) -> None:
        """`name`: a path, or "-" for standard input."""
        self.name = name
        self.lines = 0
        self.note = ""
        self.modified_at = time.time()

    def read(self) -> Iterator[Line]:
        """Every line worth reading, in order. Raises LogError."""
        with contextlib.ExitStack() as opened:
            raw = self._open(opened)
            number = 1
            held: deque[bytes] = deque()  # the last block may be a single line
            for count, block in enumerate(self._blocks(raw)):
                if len(held) == 2:
                    picked, number = _pick(held.popleft(), number, count % SAMPLED == 0)
                    yield from picked
                held.append(block)
            for block in held:
                for line in _whole(block):
                    if _BATCH in line or interesting(line):
                        yield number, line_text(line)
                    number += 1
            self.lines = number - 1

    def _open(self, opened: contextlib.ExitStack) -> _Source:
        if self.name == "-":
            return _unpacked(sys.stdin.buffer, "standard input")
        path = Path(self.name)
        try:
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                raise LogError(f"{path} is a directory: name the log file in it.")
            self.modified_at = found.st_mtime
            if stat.S_ISREG(found.st_mode):
                plain = opened.enter_context(path.open("rb", buffering=0))  # blocks are large already
                if not os.pread(plain.fileno(), 4, 0).startswith((_GZIP, _ZSTD)):
                    return cast(_Source, plain)
            return _unpacked(opened.enter_context(path.open("rb")), str(path))
        except OSError as error:
            raise LogError(f"{path} cannot be read: {error.strerror}.") from None

    def _blocks(self, raw: _Source) -> Iterator[bytes]:
        """Blocks of whole lines; the last may lack its newline."""
        pending = b""
        if isinstance(raw, io.FileIO):
            yield from _whole_blocks(raw)
        while data := self._some(raw):
            end = data.rfind(b"\n") + 1
            if end:
                yield pending + data[:end]
                pending = data[end:]
            elif len(pending) < MOST_PENDING:
                pending += data
        if pending:
            yield pending

    def _some(self, raw: _Source) -> bytes:
        found = b""
        try:
            if not isinstance(raw, gzip.GzipFile | io.BufferedReader):
                return raw.read(BLOCK)
            # In small steps, so that what precedes a cut end, or a terminal that hangs up, is not lost with it.
            while len(found) < BLOCK and (part := raw.read1(BLOCK)):
                found += part
        except (OSError, EOFError, zlib.error, RuntimeError) as error:
            self.note = f"{self.name} ends early: {error}."
        except Exception as error:  # zstandard has exceptions of its own, which are known only when it is installed
            if type(error).__module__.split(".")[0] not in ("zstd", "zstandard"):
                raise
            self.note = f"{self.name} ends early: {error}."
        return found


def _whole_blocks(raw: io.FileIO) -> Iterator[bytes]:
    """Blocks of whole lines, each read where the one before ended: nothing is glued. Ends at a line that is longer."""
    place, size = 0, os.fstat(raw.fileno()).st_size
    while place < size:
        data = os.pread(raw.fileno(), BLOCK, place)
        end = data.rfind(b"\n") + 1
        if not end:
            break
        yield data[:end]
        place += end
    raw.seek(place)


def _unpacked(raw: _Source, name: str) -> _Source:
    """The stream itself, or what it holds when it is compressed."""
    start = raw.peek(4)[:4] if isinstance(raw, io.BufferedReader) else b""
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=cast(io.BufferedReader, raw))
    if start.startswith(_ZSTD):
        return _zstd(raw, name)
    return raw


def _zstd(raw: _Source, name: str) -> _Source:
    try:
        import zstandard
    except ImportError:
        raise LogError(
            f"{name} is compressed with zstd: install specdeck[zst], or pipe it: zstd -dc FILE | specdeck doctor -"
        ) from None
    reader: Callable[..., _Source] = zstandard.ZstdDecompressor().stream_reader
    return reader(raw, read_across_frames=True)


def _pick(block: bytes, first: int, sampled: bool) -> tuple[list[Line], int]:
    """The interesting lines of a block and, when it is sampled, its last batch line."""
    found, following = sift(block, first)
    batch = _last_batch(block, following) if sampled else None
    if batch is not None and all(number != batch[0] for number, _ in found):
        found.append(batch)
        found.sort(key=lambda item: item[0])
    return [(number, line_text(line)) for number, line in found], following


def _last_batch(block: bytes, following: int) -> tuple[int, bytes] | None:
    at = block.rfind(_BATCH)
    if at < 0:
        return None
    start = block.rfind(b"\n", 0, at) + 1
    end = block.find(b"\n", at)
    if end < 0:
        return following - 1, block[start:]
    after = block.count(b"\n", end) + (0 if block.endswith(b"\n") else 1)
    return following - after, block[start:end]


def _whole(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines
