"""One sweep at a time in a state directory: two would fight for the GPUs and end each other's servers."""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Self

from tui.files import store_error, write_all
from tui.runs.sweepplan import SweepError

_FILE = "running.lock"
_TRIES, _AGAIN_S = 10, 0.05  # somebody who only looks holds it for a moment


class SweepLock:
    """Held by the process that runs a sweep; the kernel lets go of it when that process dies, however it dies."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, folder: Path, name: str) -> Self:
        """Raises SweepError while another process runs a sweep here, and StoreError."""
        path = folder / _FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise store_error(error, path) from error
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if left:
                    time.sleep(_AGAIN_S)
                    continue
                os.close(handle)
                other = running(folder) or "another sweep"
                raise SweepError(f"The sweep {other} is running: `specdeck sweep --watch` shows it.") from error
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(handle, 0)
            write_all(handle, name.encode())
        return cls(handle)

    def release(self) -> None:
        """Let another sweep begin. Twice is once."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def running(folder: Path) -> str | None:
    """The name of the sweep that some process runs now; None when there is none."""
    try:
        handle = os.open(folder / _FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(handle, 200, 0).decode(errors="replace")
    finally:
        os.close(handle)
    return None
