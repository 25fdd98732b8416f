"""One open log file, read forward in slices, that notices when what it has read was cut or rewritten in place."""

import errno
import os
import stat
from pathlib import Path

PRINT_BYTES = 1024
"""How much of the file's beginning, and of what lies just before the read position, is compared at every read."""


def kind_of(mode: int) -> str:
    """What is there instead of a file, in words."""
    return "a directory" if stat.S_ISDIR(mode) else "a pipe, socket or device"


def open_regular(path: Path) -> int:
    """Open a regular file for reading and give its descriptor. Raises OSError, also for anything but a regular file."""
    # O_NONBLOCK: opening a pipe that nobody writes to must not hang.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, f"it is {kind_of(mode)}, not a file")


def data_start(fd: int, offset: int) -> int:
    """First position at or after `offset` that is not in a hole; `offset` itself where the file system cannot tell."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:
        return offset


class OpenLog:
    """A forward reader of one file.

    Leading NULs are skipped: they are the hole left by `: > server.log` under a writer that keeps its position
    (a shell's `>` without append), never something a log says.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        found = os.fstat(fd)
        self.identity = (found.st_dev, found.st_ino)
        self.rewind()

    def rewind(self) -> None:
        """Start again at the beginning of the same file."""
        self.offset = self._head_at = 0
        self._head = self._tail = b""
        self._blank = True

    def seek(self, offset: int) -> None:
        """Go on at `offset`, the start of a line."""
        self.rewind()
        if offset:
            self.offset, self._blank = offset, False
            self._head = os.pread(self.fd, min(PRINT_BYTES, offset), 0)
            self._tail = os.pread(self.fd, min(PRINT_BYTES, offset), max(0, offset - PRINT_BYTES))

    def read(self, limit: int) -> bytes | None:
        """At most `limit` next bytes, b"" at the end. None: what was read before is no longer there; `rewind` now.

        A file that was cut and refilled beyond the old position is recognised by its first bytes or by those before the
        position. Only one that repeats `PRINT_BYTES` at both places passes for a continuation. Raises OSError.
        """
        if self._blank:
            self._skip_hole()
        if self._head and os.pread(self.fd, len(self._head), self._head_at) != self._head:
            return None
        # One call for the known bytes and the new ones, so that a cut cannot slip in between.
        known = len(self._tail)
        data = os.pread(self.fd, known + limit, self.offset - known)
        if data[:known] != self._tail:
            return None
        fresh = data[known:]
        if not fresh:
            return fresh
        self.offset += len(fresh)
        self._tail = data[-PRINT_BYTES:]
        if self._blank:
            fresh = fresh.lstrip(b"\0")
            self._blank = not fresh
            self._head_at = self.offset - len(fresh)
        if len(self._head) < PRINT_BYTES:
            self._head += fresh[: PRINT_BYTES - len(self._head)]
        return fresh

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def is_unlinked(self) -> bool:
        """No name is left for this file: it was deleted or another was put in its place, rather than renamed."""
        return os.fstat(self.fd).st_nlink == 0

    def close(self) -> None:
        os.close(self.fd)

    def _skip_hole(self) -> None:
        start = data_start(self.fd, self.offset)
        if start > self.offset:
            self.offset, self._tail = start, b""
