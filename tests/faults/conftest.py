"""What goes wrong, and how it is looked at: a running feed, a server that misbehaves, the whole program on a pty."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripted import Handler, Scripted, at_work

from tui.feed.live import LiveFeed
from tui.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
STUB = ROOT / "tests" / "support" / "nvml_stub.c"
LIMIT_S = 30.0


# ---- a running feed


@asynccontextmanager
async def running(feed: LiveFeed) -> AsyncIterator[Callable[[Callable[[Snapshot], bool]], Any]]:
    """The feed at work; gives a function that waits for a snapshot."""
    news = asyncio.Event()
    task = asyncio.create_task(feed.run(lambda _: news.set()))

    async def until(wanted: Callable[[Snapshot], bool]) -> Snapshot:
        try:
            async with asyncio.timeout(LIMIT_S):
                while not wanted(feed.snapshot):
                    if task.done():
                        task.result()
                    news.clear()
                    await news.wait()
        except TimeoutError:
            pytest.fail(f"still {feed.snapshot}")
        return feed.snapshot

    try:
        yield until
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# ---- a server that does as it is told


INFO: dict[str, Any] = {"model_path": "m", "tp_size": 1, "internal_states": [], "version": "0.5.23"}
LOADS: dict[str, Any] = {"loads": [{"dp_rank": 0, "num_running_reqs": 3, "gen_throughput": 80.0}]}


def healthy(handler: Handler) -> None:
    """What SGLang answers."""
    answers: dict[str, Any] = {"/ready": b"", "/server_info": INFO, "/v1/loads": LOADS}
    body = answers.get(handler.path.partition("?")[0])
    handler.answer(*((404, {}) if body is None else (200, body)))


@pytest.fixture
def server() -> Iterator[Scripted]:
    with at_work(Scripted(reply=healthy)) as scripted:
        yield scripted


# ---- the whole program on a pty


class Screen:
    """A command on a pty of its own, as the leader of its session."""

    def __init__(self, command: list[str], size: tuple[int, int] = (120, 40), **environ: str) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            for told in ("LINES", "COLUMNS"):  # of pytest's terminal, by readline: they would hide the pty's size
                os.unsetenv(told)
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", **environ})
            os.execvp(command[0], command)
        self.sent = b""
        self.status: int | None = None

    def read(self, enough: Callable[[bytes], bool], limit_s: float = LIMIT_S) -> bool:
        """Read until `enough(all that was sent)`; False when that did not happen before the limit or the end."""
        until = time.monotonic() + limit_s
        while not enough(self.sent):
            if time.monotonic() > until:
                return False
            if not select.select([self.master], [], [], 0.05)[0]:
                continue
            try:
                chunk = os.read(self.master, 65536)
            except OSError:
                return enough(self.sent)
            self.sent += chunk
        return True

    def shows(self, words: str, limit_s: float = LIMIT_S) -> bool:
        """Whether these words come on the screen. They must be drawn in one go: a single word is safest."""
        return self.read(lambda sent: words.encode() in sent, limit_s)

    def keys(self, text: str) -> None:
        os.write(self.master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def ended(self, limit_s: float = LIMIT_S) -> int | None:
        """The exit status as a shell tells it, None when it still runs at the limit."""
        until = time.monotonic() + limit_s
        while self.status is None and time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
            else:
                self.read(lambda _: False, 0.1)
        return self.status

    def close_terminal(self) -> None:
        os.close(self.master)
        self.master = os.open(os.devnull, os.O_RDWR)

    def kill(self) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    """Starts `specdeck ARGUMENTS` on a pty; its state and configuration are of this test."""
    opened: list[Screen] = []

    def go(*arguments: str, size: tuple[int, int] = (120, 40), program: list[str] | None = None, **environ: str):
        command = [*(program or []), sys.executable, "-m", "tui", *arguments]
        told = {
            "SPECDECK_STATE_DIR": str(tmp_path / "state"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "PYTHONPATH": str(ROOT),
        }
        opened.append(Screen(command, size, **{**told, **environ}))
        return opened[-1]

    yield go
    for one in opened:
        one.kill()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in of the driver's library, for LD_LIBRARY_PATH."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in driver library")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", STUB], check=True)
    return folder


STARTED = (
    "[2026-11-29 12:40:00 TP0] Load weight begin. avail mem=94.08 GB\n"
    "[2026-11-29 12:41:00 TP0] Load weight end. type=M, dtype=torch.bfloat16, avail mem=21.75 GB, mem usage=72.33 GB.\n"
)

# Control sequences that Textual and specdeck send on their own account: private modes, cursor, colours, questions.
OURS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\]22;[a-z]*(?:\x07|\x1b\\)|\x1b[78=>]|\x1b\([B0]")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def faults() -> SimpleNamespace:
    """Everything of this file that is no fixture."""
    return SimpleNamespace(**{name: thing for name, thing in globals().items() if not name.startswith("_")})
