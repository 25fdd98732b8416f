"""One dashboard controls a run at a time; the others watch and can say who does."""

import fcntl
import json
import os
import pwd
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tui.files import store_error, write_all
from tui.frozen import frozen
from tui.runs.store import Run

_TRIES, _AGAIN_S = 4, 0.005  # whoever asks `owner_of` holds the lock for a moment


@frozen(kw_only=False)
class Owner:
    """Who controls: user name, pid, and terminal or SSH client where there is one."""

    user: str
    pid: int
    where: str = ""

    def __str__(self) -> str:
        where = f" on {self.where}" if self.where else ""
        return f"{self.user}{where} (process {self.pid})"


class ControlLock:
    """Held for as long as this object is open; the kernel lets go of it when its process dies, however it dies."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, run: Run, environ: Mapping[str, str] | None = None) -> "ControlLock | Owner":
        """The lock of a run, or who has it. Raises StoreError.

        Of a run whose folder somebody removed nobody can hold it: a server must be stoppable then too.
        """
        path = run.path / "control.lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return cls(-1)
        except OSError as error:
            raise store_error(error, path) from error
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if left:
                    time.sleep(_AGAIN_S)
                    continue
                os.close(handle)
                return _read(path)
        try:
            os.ftruncate(handle, 0)
            write_all(handle, json.dumps(_me(os.environ if environ is None else environ)).encode())
        except OSError:
            pass  # a full disk: the lock holds all the same, only its owner's name is unknown
        return cls(handle)

    def release(self) -> None:
        """Let another take it. Twice is once."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def owner_of(run: Run) -> Owner | None:
    """Who controls a run now; None: nobody. Taking the lock is the only sure way to know that it can be had."""
    try:
        handle = os.open(run.path / "control.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(run.path / "control.lock")
    finally:
        os.close(handle)
    return None


def _me(environ: Mapping[str, str]) -> dict[str, object]:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    client = environ.get("SSH_CONNECTION", "").split(" ")[0]
    return {"user": user, "pid": os.getpid(), "where": client or environ.get("SSH_TTY", "")}


def _read(path: Path) -> Owner:
    try:
        data = json.loads(path.read_bytes())
        return Owner(user=str(data["user"])[:64], pid=int(data["pid"]), where=str(data["where"])[:64])
    except (OSError, ValueError, KeyError, TypeError):
        return Owner(user="another dashboard", pid=0)
