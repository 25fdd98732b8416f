"""Starts rehearsal servers as real processes, at a speed at which minutes take tenths of a second."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tui.facts import Fact, ServerReady
from tui.rehearsal.machine import Settings, rehearse
from tui.sglang.grammar import LogGrammar
from tui.sglang.ledger import Ledger, RankLedger

KIMI = ("--model-path", "/models/Kimi-K2.5", "--tp-size", "8", "--context-length", "131072", "--enable-metrics")
EAGLE3 = (
    "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/models/Kimi-K2.5-EAGLE3",
    "--speculative-num-steps", "2", "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "4",
)  # fmt: skip
LIMIT_S = 15.0
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass
class Rehearsed:
    """A server under test."""

    process: subprocess.Popen[bytes]
    log: Path
    state_file: Path
    port: int
    settings: Settings
    facts: list[Fact] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def text(self) -> str:
        return self.log.read_text()

    def lines(self) -> list[str]:
        return self.text().split("\n")

    def read(self) -> list[Fact]:
        """Every fact of the log as it stands."""
        grammar = LogGrammar()
        facts = [fact for i, line in enumerate(self.lines(), 1) for fact in grammar.feed(i, line, 0.0)]
        return facts + grammar.finish(0.0)

    def ledger(self) -> tuple[RankLedger, ...]:
        ledger = Ledger()
        for fact in self.read():
            ledger.apply(fact)
        return ledger.ranks()

    def wait_for(self, done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            if time.monotonic() > deadline:
                pytest.fail(f"no {what} in {LIMIT_S:.0f} s:\n{self.text()[-3000:]}")
            time.sleep(0.01)

    def wait_for_text(self, needle: str) -> None:
        def seen() -> bool:
            return needle in self.text() or self.process.poll() is not None

        self.wait_for(seen, repr(needle))
        assert needle in self.text(), self.text()[-3000:]

    def wait_ready(self) -> None:
        self.wait_for_text("The server is fired up")
        assert any(isinstance(fact, ServerReady) for fact in self.read())

    def wait_end(self) -> int:
        self.wait_for(lambda: self.process.poll() is not None, "end")
        return int(self.process.wait())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def normalised(self) -> list[str]:
        """The log without what differs from run to run: stamps, pids, the port."""
        text = _STAMP.sub("[T", self.text()).replace(str(self.process.pid), "PID").replace(str(self.port), "PORT")
        return text.split("\n")


Start = Callable[..., Rehearsed]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(version, flags, **settings): a running server; all of them are gone after the test."""
    running: list[Rehearsed] = []

    def begin(version: str, flags: Sequence[str], port: int | None = None, **settings: object) -> Rehearsed:
        number = len(running)
        state = tmp_path / f"gpus-{number}.json"
        chosen = replace(
            Settings(speed=20000, serving_speed=20, sglang_version=version, state_file=str(state)),
            **settings,  # type: ignore[arg-type]
        )
        port = port or free_port()
        argv = ("python3", "-m", "sglang.launch_server", *flags, "--port", str(port))
        command, env = rehearse(argv, {"PATH": os.environ["PATH"]}, chosen)
        log = tmp_path / f"server-{number}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        server = Rehearsed(process, log, state, port, chosen)
        running.append(server)
        return server

    yield begin
    for server in running:
        with contextlib.suppress(ProcessLookupError):
            server.process.kill()
        server.process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def kimi() -> tuple[str, ...]:
    return KIMI


@pytest.fixture
def eagle3() -> tuple[str, ...]:
    """Kimi-K2.5 with the draft of the story."""
    return (*KIMI, *EAGLE3)


@pytest.fixture
def graphs() -> Callable[[str, int], tuple[str, str]]:
    """The flag that limits decode graphs, in the spelling of a version."""

    def flag(version: str, batch: int) -> tuple[str, str]:
        new = tuple(map(int, version.split("."))) >= (0, 5, 20)
        return ("--cuda-graph-max-bs-decode" if new else "--cuda-graph-max-bs", str(batch))

    return flag
