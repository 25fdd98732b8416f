"""Start the real server straight from a profile, send it traffic, and end it: for tests of what it prints itself.

The product's own launch path (the keeper) is tested elsewhere; here nothing stands between the test and SGLang.
"""

import contextlib
import json
import os
import random
import socket
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import urllib3
from layout import PROFILES, SERVER_ENV, models_dir, venv_dir

from tui.server import leftovers

READY_LIMIT_S = 300.0  # other programs may keep both cores busy
PORTS = range(21_000, 30_000)  # below those that the kernel gives to whoever asks for any, as a loading server does
Knobs = Mapping[str, Any]


class LaunchError(AssertionError):
    """The server ended, or did not become ready, within the limit; the message ends with its last lines."""


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]


def flags(knobs: Knobs) -> list[str]:
    """Knobs as command-line words: true is a bare flag, false and None leave it out, a list repeats its values."""
    words: list[str] = []
    for name, value in knobs.items():
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += [f"--{name}", *map(str, values)]
    return words


def command(profile: str, extra: Knobs | None = None, env: Mapping[str, str] | None = None) -> Command:
    """The command of profiles/<profile>.toml with `extra` knobs over its own (None takes one away)."""
    file = PROFILES / f"{profile}.toml"
    found = tomllib.loads(file.read_text())
    knobs = found["knobs"] | dict(extra or {})
    for name, value in knobs.items():
        if isinstance(value, str) and value.startswith(".cache/models/"):
            knobs[name] = str(models_dir() / value.removeprefix(".cache/models/"))
    argv = (str(venv_dir() / "bin" / "sglang"), "serve", *flags(knobs))
    cwd = (file.parent / found["server"].get("cwd", ".")).resolve()
    return Command(argv, cwd, os.environ | SERVER_ENV | found["env"] | dict(env or {}))


def free_port() -> int:
    """A port that nobody has, nor is likely to be given before a server has loaded and binds it."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(slots=True)
class Server:
    """One running server. `log` grows while it runs; `base_url` answers once it is ready."""

    process: "subprocess.Popen[bytes]"
    log: Path
    base_url: str
    started: float

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tree(self) -> list[psutil.Process]:
        """The server and all its descendants, itself first."""
        try:
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def wait_for_line(self, text: str, limit_s: float = READY_LIMIT_S) -> None:
        """Return when the log holds `text`. Raises LaunchError when the server ends first or the time is up."""
        until = time.monotonic() + limit_s
        while True:
            # Asked before the log is read, so that what is written last still counts.
            ended, late = self.process.poll() is not None, time.monotonic() > until
            if text in self.text():
                return
            if ended or late:
                tail = "\n".join(self.text().splitlines()[-15:])
                how = f"ended with {self.process.returncode}" if ended else f"had not after {limit_s:.0f} s"
                raise LaunchError(f"waited for {text!r} in the log, but the server {how}:\n{tail}")
            time.sleep(0.1)

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> float:
        """Wait for the ready line and for /health to answer 200. Returns the seconds since launch."""
        self.wait_for_line("The server is fired up and ready to roll!", limit_s)
        assert get(self.base_url, "/health").status == 200
        return time.monotonic() - self.started

    def wait_exit(self, limit_s: float) -> int | None:
        """The exit status, or None when it still runs after `limit_s`."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the whole tree, by the processes themselves: psutil checks their start times before it signals.

        What it held in shared memory and of sockets is removed.
        """
        tree = self.tree()
        held = leftovers.held_files(process.pid for process in tree)
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(tree[1:], timeout=60)
        self.process.wait(60)
        leftovers.remove(leftovers.leftovers(held, [process.pid for process in tree]))


@contextlib.contextmanager
def launched(built: Command, log: Path) -> Iterator[Server]:
    """Start a server in a session of its own, its output straight into `log`; nothing of it is left afterwards."""
    port = built.argv[built.argv.index("--port") + 1]
    with open(log, "ab") as out:
        process = subprocess.Popen(
            built.argv,
            cwd=built.cwd,
            env=built.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, log, f"http://127.0.0.1:{port}", time.monotonic())
    try:
        yield server
    finally:
        server.kill()


def get(base_url: str, path: str) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False, timeout=60.0) as http:
        return http.request("GET", base_url + path)


def load(base_url: str, n: int, max_tokens: int) -> None:
    """Send `n` requests at once over the server's three kinds of answer, and wait for all of them."""

    def one(i: int) -> None:
        sampling = {"max_new_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        chat: dict[str, Any] = {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"tell me {i} " * 5}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        if i % 3 == 0:
            path, body = "/generate", {"text": "hello world " * (i + 3), "sampling_params": sampling}
        elif i % 3 == 1:
            path, body = "/v1/chat/completions", chat
        else:
            path, body = "/v1/chat/completions", chat | {"stream": True}
        with urllib3.PoolManager(retries=False, timeout=300.0) as http:
            answer = http.request("POST", base_url + path, json=body)
        statuses.append(answer.status)

    statuses: list[int] = []
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * n, f"{n} requests were answered {statuses}"


def server_info(base_url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(base_url, "/server_info").data)
    return found
