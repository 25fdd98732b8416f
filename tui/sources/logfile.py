"""Follow a log file by name through everything that happens to log files. Synchronous: call `poll` from a thread.

What is promised, for a file that has a name when `poll` looks at it, and lines that end in LF:

* Every complete line is given exactly once and in order, whatever is appended between polls and wherever slices cut it.
* Renamed and created anew, replaced, deleted and created anew: the open file is read to its end before the new one is
  begun, and the new one is begun only when it has bytes, because until the writer opens it, it writes to the old one.
* Cut in place (copytruncate): all that is in the file after the cut is a new generation, also when the file has grown
  beyond the old position again; see `OpenLog.read` for the one case that cannot be told.

What cannot be kept: lines written and cut away between two polls, and a file that came and went between two polls.
"""

import errno
import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from tui.sources.lineseek import tail_start
from tui.sources.linetext import LineSplitter
from tui.sources.openlog import OpenLog, kind_of, open_regular

SLICE_BYTES = 1024 * 1024


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

    lines: complete lines, all of one generation: the one before `generation` when `reset` is set.
    partial: the unfinished last line; it comes again, completed, as a line. On a reset it becomes a line as it is.
    reset: a new generation began; its lines come with the next poll.
    generation: 0 for the first file, then counted up by one with every reset.
    base: number of lines before this generation, so that `number - base` is a line's place in its own file.
    more: bytes are waiting (or a new generation is): poll again without waiting for a wake-up.
    missing: nothing has the file's name now. An open file is still read, since its writer may still write to it.
    error: one sentence on why the file of that name cannot be read, else None.
    offset, size: bytes read and bytes there, of the file that is open; 0 without one.
    """

    lines: tuple[LogLine, ...]
    partial: str
    reset: Reset | None
    generation: int
    base: int
    more: bool
    missing: bool
    error: str | None
    offset: int
    size: int


class LogFollower:
    """Follows the file that has the name `path`. Not thread-safe: one caller at a time."""

    def __init__(self, path: Path | str, *, last: int | None = None, slice_bytes: int = SLICE_BYTES) -> None:
        """`last`: begin with that many last lines of a file that exists at the first poll (None: the whole of it).
        Line numbers then begin at 1 with the first line given."""
        self.path = Path(path)
        self._last = last
        self._slice_bytes = slice_bytes
        self._file: OpenLog | None = None
        self._splitter = LineSplitter()
        self._count = 0
        self._base = 0
        self._generation = 0

    def poll(self) -> LogChunk:
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
            self._skip_to_last(self._file)
        try:
            return self._read(self._file, named, missing, error)
        except OSError as problem:
            if (
                problem.errno == errno.ESTALE
            ):  # a network file system whose server deleted the file: nothing more will come
                self.close()
                return self._chunk(self._end_generation(), reset=Reset.REPLACED, missing=missing)
            return self._chunk(error=_sentence(self.path, problem))

    def _read(self, file: OpenLog, named: os.stat_result | None, missing: bool, error: str | None) -> LogChunk:
        data = file.read(self._slice_bytes)
        if data is None:
            file.rewind()
            return self._chunk(self._end_generation(), reset=Reset.TRUNCATED, missing=missing, error=error)
        lines = self._number(self._splitter.feed(data))
        reset = None
        if (
            file.offset >= file.size()
            and named is not None
            and named.st_size
            and (named.st_dev, named.st_ino) != file.identity
        ):
            reset, error = self._switch(file)
            if reset is not None:
                lines += self._end_generation()
        return self._chunk(lines, reset=reset, missing=missing, error=error)

    def dup_fd(self) -> int | None:
        """A descriptor of the open file for a `LineIndex` of this generation; None without an open file."""
        return None if self._file is None else os.dup(self._file.fd)

    def close(self) -> None:
        """Close the file. It is not polled after this."""
        if self._file is not None:
            self._file.close()
            self._file = None

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

    def _switch(self, old: OpenLog) -> tuple[Reset | None, str | None]:
        """Take the file that has the name now in place of `old`, whose end was read."""
        new, error = self._open()
        if new is None:
            return None, error
        if new.identity == old.identity:  # it was renamed back meanwhile
            new.close()
            return None, None
        reason = Reset.REPLACED if old.is_unlinked() else Reset.ROTATED
        old.close()
        self._file = new
        return reason, None

    def _end_generation(self) -> list[LogLine]:
        lines = self._number(self._splitter.flush())
        self._generation += 1
        self._base = self._count
        return lines

    def _number(self, texts: list[str]) -> list[LogLine]:
        first = self._count + 1
        self._count += len(texts)
        generation = self._generation
        return [LogLine(number, text, generation) for number, text in enumerate(texts, first)]

    def _chunk(
        self,
        lines: list[LogLine] | None = None,
        *,
        reset: Reset | None = None,
        missing: bool = False,
        error: str | None = None,
    ) -> LogChunk:
        offset = size = 0
        if self._file is not None:
            offset, size = self._file.offset, self._file.size()
        return LogChunk(
            lines=tuple(lines or ()),
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
