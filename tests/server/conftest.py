"""Small servers to launch and end: a script that does what its knobs say."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tui.factlines import read_facts
from tui.facts import Fact, ProcessId
from tui.procid import alive, process_id
from tui.runs.store import Run, RunStore, load_run
from tui.server import control
from tui.server.profiles import Profile, parse
from tui.server.signals import kill_all, server_tree

LIMIT_S = 30.0

FAKE_SERVER = """
import argparse, json, os, signal, socket, subprocess, sys, time

parser = argparse.ArgumentParser()
for flag in ("--children", "--detached", "--code", "--port"):
    parser.add_argument(flag, type=int, default=0)
parser.add_argument("--say", default="")
parser.add_argument("--listen", action="store_true")
parser.add_argument("--ignore-term", action="store_true")
parser.add_argument("--tell", action="store_true")
parser.add_argument("--end", action="store_true")
parser.add_argument("--api-key")
options = parser.parse_args()

ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if options.ignore_term else ""
sleep = [sys.executable, "-c", ignore + "import time; print('child up', flush=True); time.sleep(600)"]
children = [subprocess.Popen(sleep, stdout=subprocess.PIPE) for _ in range(options.children)]
children += [subprocess.Popen(sleep, stdout=subprocess.PIPE, start_new_session=True) for _ in range(options.detached)]
for child in children:
    child.stdout.readline()

def term(number, frame):
    for child in children:
        child.terminate()
    sys.exit(0)

signal.signal(signal.SIGTERM, signal.SIG_IGN if options.ignore_term else term)
if options.listen:
    listener = socket.create_server(("127.0.0.1", options.port))
if options.tell:
    print(json.dumps({
        "sid": os.getsid(0), "pgid": os.getpgid(0), "cwd": os.getcwd(), "stdin": os.readlink("/proc/self/fd/0"),
        "umask": os.umask(0), "env": dict(os.environ), "argv": sys.argv[1:],
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "fds": sorted(os.listdir("/proc/self/fd")),
    }))
print(options.say)
print("up", flush=True)
if options.end:
    os._exit(options.code)
while True:
    time.sleep(600)
"""


def until(what: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Wait for something to become true and return it."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {limit_s:g} s")


@dataclass
class World:
    """A state directory and the servers launched in it; everything is ended afterwards."""

    folder: Path
    store: RunStore
    others: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def profile(self, command: list[str] | None = None, env: dict[str, str] | None = None, **knobs: Any) -> Profile:
        words = command or [sys.executable, str(self.folder / "fake_server.py")]
        knobs = {"port": free_port(), **{name.replace("_", "-"): value for name, value in knobs.items()}}
        lines = ['name = "fake"', "[server]", f"command = {json.dumps(words)}", "[env]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in (env or {}).items()]
        lines += ["[knobs]", *(f"{name} = {json.dumps(value)}" for name, value in knobs.items())]
        return parse("\n".join(lines) + "\n", self.folder / "fake.toml")

    def launch(self, **knobs: Any) -> Run:
        run = control.launch(self.profile(**knobs), self.store)
        self.wait_up(run)
        return run

    def wait_up(self, run: Run) -> None:
        until(
            lambda: (
                run.log.exists() and "up\n" in run.log.read_text() and not run.log.read_text().endswith("child up\n")
            )
        )

    def sleeper(self) -> "tuple[subprocess.Popen[bytes], ProcessId]":
        """A process that belongs to nobody's server."""
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.others.append(process)
        return process, until(lambda: process_id(process.pid))

    def end_everything(self) -> None:
        for process in self.others:
            process.kill()
            process.wait()
        for name in self.store.names():
            run = self.store.load(name)
            if run.damaged is None:
                kill_all(lambda run=run: server_tree(run.server, run.keeper, run.tree), 10.0)  # type: ignore[misc]
                if run.keeper is not None and alive(run.keeper):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(run.keeper.pid, signal.SIGKILL)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "fake_server.py").write_text(FAKE_SERVER)
    world = World(tmp_path, RunStore(tmp_path / "state"))
    yield world
    world.end_everything()


@pytest.fixture
def again() -> Callable[[Run], Run]:
    """The run as its folder tells it now."""
    return lambda run: load_run(run.path)


@pytest.fixture
def wait() -> Callable[..., Any]:
    return until


@pytest.fixture
def facts_of() -> Callable[[Run], list[Fact]]:
    """What the keeper wrote down."""

    def read(run: Run) -> list[Fact]:
        return list(read_facts(run.control.read_text().splitlines()))

    return read


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def port() -> int:
    return free_port()
