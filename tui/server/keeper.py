"""The keeper: a small process of its own that starts one server, waits for its end and writes down what came of it.

`python -m tui.server.keeper RUN_DIR` with the plan, a JSON object, on stdin. It answers one JSON line on stdout and
detaches. Secrets come by stdin only: nothing that is written holds them. It starts nothing but the server, and being
its subreaper it inherits whatever the server leaves running, so every child and grandchild of it is the server's.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.files import StoreError
from tui.server.watch import Watch

_PR_SET_CHILD_SUBREAPER = 36
_TAKEN = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTSTP")


def spawn(log: Path, plan: dict[str, Any]) -> int:
    """Start the server in a session of its own; returns its pid. Raises OSError.

    It must be the main thread that does so: a child's parent-death signal is tied to the thread that made it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    out = os.open(log, flags, 0o600)
    private = os.umask(plan["umask"])
    home = os.getcwd()
    try:
        os.chdir(plan["cwd"])
        return os.posix_spawn(
            plan["executable"],
            plan["argv"],
            plan["env"],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, out, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}),
        )
    finally:
        os.chdir(home)
        os.umask(private)
        os.close(out)


def say(text: str) -> None:
    """A line for keeper.log. Never raises: the disk may be full."""
    with contextlib.suppress(OSError):
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="replace"))


def main(folder: Path) -> None:
    """Read the plan, detach, start the server, tell the caller, and stay until it is over."""
    try:
        plan = json.loads(sys.stdin.buffer.read())
    except ValueError:
        return  # the caller died while it told
    os.umask(0o077)
    if os.fork():
        os._exit(0)  # the caller reaps this one; the keeper belongs to nobody
    os.chdir("/")
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake = _catch_signals()
    try:
        watch = Watch(folder, plan, say)
        watch.start(lambda: spawn(folder / "server.log", plan))
    except (OSError, StoreError) as error:
        why = str(error) if isinstance(error, StoreError) else f"{plan['executable']} cannot be run: {error.strerror}."
        _tell({"error": why})
        return
    _redirect(folder / "keeper.log", lambda: _tell({"ok": True}))
    watch.run(wake)


def _catch_signals() -> socket.socket:
    """A hangup or Ctrl-C in somebody's terminal is not for the keeper. Handlers, since what is ignored is inherited."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
    for name in _TAKEN:
        signal.signal(signal.Signals[name], lambda *_: None)
    return reader


def _redirect(log: Path, before: Callable[[], None]) -> None:
    """Let go of the caller's pipes, after `before`."""
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        out = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    before()
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.close(nothing)


def _tell(answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the caller may be gone
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
