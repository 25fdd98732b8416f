"""The kernel's word that something happened in a directory: Linux's inotify, without a thread and without polling."""

import asyncio
import errno
import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

REST_S = 0.02
"""After a word the next one is heard so much later: a flood of writes wakes the reader fifty times a second."""

# From <sys/inotify.h>.
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_ONLY_DIRECTORIES = 0x01000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_DIRECTORIES
)  # fmt: skip
_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 64 * 1024


class DirectoryWatch:
    """Calls `tell` on the running loop when one of `names` in one of `directories`, or a directory itself, changes.

    Raises OSError where the kernel cannot watch: another system than Linux, no watch or instance left, no permission.
    """

    def __init__(self, directories: Iterable[Path], names: Iterable[str], tell: Callable[[], None]) -> None:
        self._names = {os.fsencode(name) for name in names}
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._rest: asyncio.TimerHandle | None = None
        self._file = _begin(directories)
        self._loop.add_reader(self._file, self._hear)

    def close(self) -> None:
        """End it; `tell` is not called any more."""
        if self._file < 0:
            return
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._file)
        os.close(self._file)
        self._file = -1

    def _hear(self) -> None:
        self._loop.remove_reader(self._file)
        self._rest = self._loop.call_later(REST_S, self._listen)
        with suppress(OSError):
            if self._concerns(os.read(self._file, _READ_BYTES)):
                self._tell()

    def _listen(self) -> None:
        self._loop.add_reader(self._file, self._hear)

    def _concerns(self, events: bytes) -> bool:
        """Whether one of the events is about a name of ours, or, without a name, about a directory or lost events."""
        place = 0
        while place < len(events):
            _, _, _, length = _HEAD.unpack_from(events, place)
            place += _HEAD.size
            name = events[place : place + length].rstrip(b"\0")
            place += length
            if not name or name in self._names:
                return True
        return False


def _begin(directories: Iterable[Path]) -> int:
    """The file descriptor that tells of these directories."""
    import ctypes  # nothing that only starts up should pay for it

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        raise OSError(errno.ENOSYS, "this system has no inotify")
    file: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if file < 0:
        raise _error(ctypes.get_errno())
    for directory in directories:
        if library.inotify_add_watch(file, os.fsencode(directory), _MASK) < 0:
            error = _error(ctypes.get_errno())
            os.close(file)
            raise error
    return file


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
