"""Follow a log file by name through everything that happens to log files. Synchronous: call `poll` from a thread.

What is promised, for a file that has a name when `poll` looks at it, and lines that end in LF:

* Every complete line is given exactly once and in order, whatever is appended between polls and wherever slices cut it.
* Renamed and created anew, replaced, deleted and created anew: an open file is read to its end before the new one is
  begun, and the new one is begun only when it has bytes, because until the writer opens it, it writes to the old one.
* Cut in place (copytruncate): all that is in the file after the cut is a new generation, also when the file has grown
  beyond the old position again; see `OpenLog.read` for the one case that cannot be told.

What cannot be kept: lines written and cut away between two polls, and a file that came and went between two polls. One
poll while a file has the name is enough: it is then open and is read in its turn, however far behind the reader is.
"""

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from tui.sources.lineseek import tail_start
from tui.sources.linetext import LineSplitter, Part, count_lines, lines_of
from tui.sources.openlog import OpenLog, kind_of, open_regular

SLICE_BYTES = 1024 * 1024
SUCCESSORS = 64
"""How many files that got the name while the reader was busy are held open."""


class Reset(StrEnum):
    """Why a new generation began."""

    ROTATED = "rotated"
    """The old file was renamed and another has its name."""
    REPLACED = "replaced"
    """The old file was deleted, or another was moved over it."""
    TRUNCATED = "truncated"
    """The same file was cut or rewritten from its beginning."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A complete line. `number` is 1-based and counts on across generations. `text` has no LF, but may hold CRs."""

    number: int
    text: str
    generation: int


@dataclass(frozen=True, slots=True)
class LogChunk:
    """What one `poll` found.

    parts: the complete lines as they were read, all of one generation: the one before `generation` when `reset` is set.
    read: number of the last line so far.
    partial: the unfinished last line; it comes again, completed, as a line. On a reset it becomes a line as it is.
    reset: a new generation began; its lines come with the next poll.
    generation: 0 for the first file, then counted up by one with every reset.
    base: number of lines before this generation, so that `number - base` is a line's place in its own file.
    more: bytes are waiting (or a new generation is): poll again without waiting for a wake-up.
    missing: nothing has the file's name now. An open file is still read, since its writer may still write to it.
    error: one sentence on why the file of that name cannot be read, else None.
    offset, size: bytes read and bytes there, of the file that is open; 0 without one.
    """

    parts: tuple[Part, ...]
    read: int
    partial: str
    reset: Reset | None
    generation: int
    base: int
    more: bool
    missing: bool
    error: str | None
    offset: int
    size: int

    @property
    def first(self) -> int:
        """Number of the first line, or of the next where there is none."""
        return self.read - count_lines(self.parts) + 1

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """The complete lines, decoded."""
        generation = self.generation - (self.reset is not None)
        return tuple(LogLine(number, text, generation) for number, text in enumerate(lines_of(self.parts), self.first))


class LogFollower:
    """Follows the file that has the name `path`. Not thread-safe: one caller at a time."""

    def __init__(self, path: Path | str, *, last: int | None = None, slice_bytes: int = SLICE_BYTES) -> None:
        """`last`: begin with that many last lines of a file that exists at the first poll (None: the whole of it).
        Line numbers then begin at 1 with the first line given."""
        self.path = Path(path)
        self._last = last
        self._slice_bytes = slice_bytes
        self._file: OpenLog | None = None
        self._successors: deque[OpenLog] = deque()
        self._splitter = LineSplitter()
        self._count = 0
        self._base = 0
        self._generation = 0

    def poll(self, slice_bytes: int | None = None) -> LogChunk:
        """Read at most one slice. A missing, unreadable or odd file is told in the chunk, not raised."""
        # Looked at before reading: bytes in a new file mean that the writer has left the old one, so that the end
        # found after this is the old file's true end.
        named, error = self._look()
        missing = named is None and error is None
        if self._file is None:
            if named is None:
                return self._chunk(missing=missing, error=error)
            self._file, error = self._open()
            if self._file is None:
                return self._chunk(missing=error is None, error=error)
        try:
            self._skip_to_last(self._file)
            if named is not None:
                error = self._note_successor(self._file, (named.st_dev, named.st_ino))
            return self._read(self._file, slice_bytes or self._slice_bytes, missing, error)
        except OSError as problem:
            if problem.errno != errno.ESTALE:
                return self._chunk(error=_sentence(self.path, problem))
            # A network file system whose server deleted the file: nothing more will come from it.
            self._file.close()
            self._file = self._successors.popleft() if self._successors else None
            return self._chunk(self._end_generation(), reset=Reset.REPLACED, missing=missing)

    def _read(self, file: OpenLog, limit: int, missing: bool, error: str | None) -> LogChunk:
        written = any(successor.size() for successor in self._successors)  # asked before reading: see poll
        data = file.read(limit)
        if data is None:
            file.rewind()
            return self._chunk(self._end_generation(), reset=Reset.TRUNCATED, missing=missing, error=error)
        parts = self._counted(self._splitter.cut(data))
        reset = None
        if written and file.offset >= file.size():
            reset = Reset.REPLACED if file.is_unlinked() else Reset.ROTATED
            parts += self._end_generation()
            file.close()
            self._file = self._successors.popleft()
        return self._chunk(parts, reset=reset, missing=missing, error=error)

    def dup_fd(self) -> int | None:
        """A descriptor of the open file for a `LineIndex` of this generation; None without an open file."""
        return None if self._file is None else os.dup(self._file.fd)

    def close(self) -> None:
        """Close what is open. The follower is not polled after this."""
        for file in (self._file, *self._successors):
            if file is not None:
                file.close()
        self._file = None
        self._successors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look(self) -> tuple[os.stat_result | None, str | None]:
        """The regular file that has the name now; else None, with a sentence unless there is simply nothing."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None, None
        except OSError as problem:
            return None, _sentence(self.path, problem)
        if stat.S_ISREG(found.st_mode):
            return found, None
        return None, f"{self.path} is {kind_of(found.st_mode)}, not a log file; give the path of a file."

    def _open(self) -> tuple[OpenLog | None, str | None]:
        try:
            return OpenLog(open_regular(self.path)), None
        except FileNotFoundError:
            return None, None
        except OSError as problem:
            return None, _sentence(self.path, problem)

    def _skip_to_last(self, file: OpenLog) -> None:
        if self._last is not None:
            file.seek(tail_start(file.fd, file.size(), self._last))
        self._last = None

    def _note_successor(self, current: OpenLog, named: tuple[int, int]) -> str | None:
        """Open a file that newly has the name, so that it can be read in its turn, wherever it goes meanwhile."""
        if named == current.identity:
            # The name came back. What had it in between without a byte was never written to.
            for empty in [one for one in self._successors if not one.size()]:
                empty.close()
                self._successors.remove(empty)
            return None
        known = {current.identity, *(one.identity for one in self._successors)}
        if named in known or len(self._successors) >= SUCCESSORS:
            return None
        successor, error = self._open()
        if successor is not None and successor.identity in known:  # the name moved on meanwhile
            successor.close()
        elif successor is not None:
            self._successors.append(successor)
        return error

    def _end_generation(self) -> list[Part]:
        parts = self._counted(list(self._splitter.flush()))
        self._generation += 1
        self._base = self._count
        return parts

    def _counted(self, parts: list[Part]) -> list[Part]:
        self._count += count_lines(parts)
        return parts

    def _chunk(
        self,
        parts: list[Part] | None = None,
        *,
        reset: Reset | None = None,
        missing: bool = False,
        error: str | None = None,
    ) -> LogChunk:
        offset = size = 0
        if self._file is not None:
            offset, size = self._file.offset, self._file.size()
        return LogChunk(
            parts=tuple(parts or ()),
            read=self._count,
            partial=self._splitter.partial(),
            reset=reset,
            generation=self._generation,
            base=self._base,
            more=reset is not None or offset < size,
            missing=missing,
            error=error,
            offset=offset,
            size=size,
        )


def _sentence(path: Path, problem: OSError) -> str:
    reason = (problem.strerror or str(problem)).lower()
    advice = "run as a user who may read it" if isinstance(problem, PermissionError) else "trying again"
    return f"Cannot read {path}: {reason}; {advice}."
