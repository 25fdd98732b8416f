"""The product as its users have it: the console script, in a state directory of its own, and the screen on a pty."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import urllib3

from tui.facts import ProcessId
from tui.procid import alive
from tui.runs.store import Run, RunStore
from tui.server import leftovers
from tui.server.signals import kill_all, server_tree

SCRIPT = Path(sys.executable).parent / "specdeck"
# Other programs may keep both cores busy.
READY_LIMIT_S = 300.0
LIMIT_S = 180.0  # for whatever takes seconds
ROWS, COLUMNS = 40, 120
# Questions that terminals answer; a program that hears nothing may wait.
_ANSWERS = ((b"\x1b[?2026$p", b"\x1b[?2026;2$y"), (b"\x1b[c", b"\x1b[?62;c"))
_TOKEN = re.compile(
    r"\x1b\[([0-9;?<=>]*)[ -/]*([@-~])"  # moves and colours
    r"|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and the like
    r"|\x1b[^\[\]P]|([^\x1b])",
    re.DOTALL,
)


def until(told: Callable[[], Any], limit_s: float, what: str, seen: Callable[[], str] = str) -> Any:
    """The first true answer of `told`. Fails with `what`, and what is `seen` then, when there is none in `limit_s`."""
    end = time.monotonic() + limit_s
    while not (found := told()):
        assert time.monotonic() < end, f"{what}: not within {limit_s:.0f} s\n{seen()}"
        time.sleep(0.1)
    return found


def in_session(leader: int) -> list[int]:
    """Every living process of the session that `leader` made: a look at a server that needs no word of the product."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


class Specdeck:
    """Commands in one state directory. Leaving the `with` ends whatever it has started."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.store = RunStore(state)
        self.environ = os.environ | {"SPECDECK_STATE_DIR": str(state)}

    def run(self, *words: str, limit_s: float = READY_LIMIT_S) -> "subprocess.CompletedProcess[str]":
        """One command to its end; standard output and error as text."""
        return subprocess.run(
            [str(SCRIPT), *words], env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=limit_s,
        )  # fmt: skip

    def launch(self, profile: str, port: int, *words: str) -> "subprocess.CompletedProcess[str]":
        """`specdeck run PROFILE --wait ready`."""
        return self.run("run", profile, "--set", f"port={port}", "--wait", "ready", "--yes", *words,
                        limit_s=2 * READY_LIMIT_S)  # fmt: skip

    def begin(self, profile: str, port: int, *words: str) -> Run:
        """`specdeck run PROFILE` without waiting; its run."""
        done = self.run("run", profile, "--set", f"port={port}", "--yes", *words)
        assert done.returncode == 0, done.stderr
        return self.last()

    def status(self, *words: str) -> dict[str, Any]:
        """`specdeck status --json`."""
        found: dict[str, Any] = json.loads(self.run("status", "--json", *words).stdout)
        return found

    def last(self) -> Run:
        run = self.store.latest()
        assert run is not None
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self.store.runs():
            tree = tree_of(run)
            held = {*run.files, *leftovers.held_files(process.pid for process in tree)}
            kill_all(lambda run=run: [*filter(alive, [run.keeper]), *tree_of(run)], 60)
            leftovers.remove(leftovers.leftovers(held, [process.pid for process in (*tree, *run.tree)]))


def tree_of(run: Run) -> list[ProcessId]:
    """The server's processes now."""
    return server_tree(run.server, run.keeper, run.tree)


def scheduler_of(run: Run) -> psutil.Process:
    """The process that computes."""
    found = [psutil.Process(process.pid) for process in tree_of(run)]
    return next(process for process in found if "".join(process.cmdline()[:1]).startswith("sglang::scheduler"))


class Screen:
    """What a terminal would show: text, line feeds and cursor movement; colours are left out."""

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        self._rows, self._columns = rows, columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        """Draw. A sequence that is cut at the end waits for its rest."""
        text = self._rest + text
        cut = text.rfind("\x1b")
        self._rest = text[cut:] if cut >= 0 and _TOKEN.match(text, cut) is None else ""
        for token in _TOKEN.finditer(text[: len(text) - len(self._rest)]):
            if token[2]:
                self._move(token[1], token[2])
            elif token[3]:
                self._draw(token[3])

    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._cells)

    def _move(self, numbers: str, what: str) -> None:
        if what == "H":
            row, _, column = numbers.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif what == "J":
            self._cells = [[" "] * self._columns for _ in range(self._rows)]
        elif what == "C":
            self._column += int(numbers or 1)

    def _draw(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._row += 1
        elif char >= " ":
            if self._row < self._rows and self._column < self._columns:
                self._cells[self._row][self._column] = char
            self._column += 1


class Dashboard:
    """A dashboard on a pty of its own, as leader of a session, as a terminal starts it."""

    def __init__(self, deck: Specdeck, *words: str) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            environ = deck.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            try:
                os.execve(SCRIPT, [str(SCRIPT), *words], environ)
            finally:
                os._exit(127)
        os.set_inheritable(self._master, False)  # else the next dashboard would keep this one's terminal open
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = Screen()
        self._status: int | None = None
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """The screen now."""
        with self._lock:
            return self._screen.text()

    def shows(self, *words: str, limit_s: float = LIMIT_S) -> str:
        """Wait until all of `words` are on the screen; the screen."""

        def shown() -> str:
            text = self.text()
            return text if all(word in text for word in words) else ""

        found: str = until(shown, limit_s, f"{words} on the screen", self.text)
        return found

    def press(self, keys: str, shows: str = "") -> str:
        """Type; with `shows`, wait until that is on the screen."""
        os.write(self._master, keys.encode())
        return self.shows(shows) if shows else ""

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit status, negative for a signal."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self, limit_s: float = LIMIT_S) -> int:
        def ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            return pid != 0

        if self._status is None:
            until(ended, limit_s, "the dashboard's end")
        assert self._status is not None
        return self._status

    def hang_up(self) -> int:
        """Close the terminal: the kernel sends SIGHUP. The exit status."""
        self._close()
        return self.wait()

    def _close(self) -> None:
        master, self._master = self._master, -1
        if master >= 0:
            self._reader.join()
            os.close(master)

    def _read(self) -> None:
        rest = b""
        while (master := self._master) >= 0:
            try:
                if not select.select([master], [], [], 0.2)[0]:
                    continue
                chunk = rest + os.read(master, 65536)
            except (OSError, ValueError):
                return
            for question, answer in _ANSWERS:
                if question in chunk:
                    os.write(master, answer)
            text = chunk.decode(errors="ignore")
            rest = chunk[len(text.encode()) :] if len(chunk) - len(text.encode()) < 4 else b""
            with self._lock:
                self._screen.feed(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
        self._close()


@contextlib.contextmanager
def traffic(base_url: str, max_tokens: int = 120) -> Iterator[list[int]]:
    """One request after the other for as long as the `with` lasts; the statuses of the answers."""
    stop = threading.Event()
    statuses: list[int] = []

    def work(i: int) -> None:
        with urllib3.PoolManager(retries=False, timeout=300.0) as http:
            while not stop.is_set():
                sampling = {"max_new_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
                body = {"text": f"hello world {i} " * 5, "sampling_params": sampling}
                statuses.append(http.request("POST", base_url + "/generate", json=body).status)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def stream(base_url: str, max_tokens: int) -> Iterator[list[bytes]]:
    """A streaming request that has begun to answer; the parts that came. It is left alone until the server ends it."""
    parts: list[bytes] = []

    def work() -> None:
        sampling = {"max_new_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        body = {"text": "tell me ", "sampling_params": sampling, "stream": True}
        with (
            contextlib.suppress(urllib3.exceptions.HTTPError),
            urllib3.PoolManager(retries=False, timeout=300.0) as http,
        ):
            answer = http.request("POST", base_url + "/generate", json=body, preload_content=False)
            parts.extend(answer.stream(4096))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: parts, LIMIT_S, "a first token")
        yield parts
    finally:
        thread.join(300)
