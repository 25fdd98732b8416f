"""Runs of the rehearsal machine, and run folders made by hand."""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui.commands.common import to_json
from tui.factlines import dump_fact
from tui.facts import DecodeBatch, Exited, Fact, Launched, ServerReady
from tui.feed.place import RehearsalPlace, rehearsal_place
from tui.feed.pump import Pump
from tui.feed.targets import of_run
from tui.feed.watch import Watch
from tui.rehearsal.machine import Settings
from tui.runs.recorder import Recorder
from tui.runs.store import Run, RunStore
from tui.server import control, stopping
from tui.server.profiles import Profile, load, set_knobs
from tui.session import Session
from tui.snapshot import Snapshot

PROFILES = Path(__file__).resolve().parents[2] / "profiles"
LIMIT_S = 20.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """A state directory; every server that was started in it is gone afterwards."""
    made = RunStore(tmp_path / "state")
    yield made
    for run in made.active():
        for _ in stopping.kill(run, "the test is over"):
            pass


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def as_json(snapshot: Snapshot) -> str:
    """What must be the same, byte for byte."""
    return json.dumps(to_json(snapshot), sort_keys=True, ensure_ascii=False)


@pytest.fixture
def snapshot_bytes() -> Callable[[Snapshot], str]:
    return as_json


@pytest.fixture
def place(store: RunStore) -> RehearsalPlace:
    return rehearsal_place(store, Settings(speed=20000, serving_speed=20))


@pytest.fixture
def profile(place: RehearsalPlace) -> Profile:
    """Kimi-K2.5 without speculation, with room, on a free port."""
    knobs = {"port": free_port(), "mem-fraction-static": 0.85, "cuda-graph-max-bs": 128}
    return place.prepare(set_knobs(load(PROFILES / "kimi-k2.5-base.toml"), knobs))


class Watched:
    """A run that is being watched and recorded; `heard` is every fact in the order it was folded."""

    def __init__(self, run: Run, place: RehearsalPlace, recorder: Recorder | None) -> None:
        self.run = run
        self.heard: list[Fact] = []
        self.recorder = recorder
        self._pump = Pump(self._hear)
        self._watch = Watch(of_run(run), place, self._pump)

    def _hear(self, facts: Any) -> None:
        self.heard += facts
        if self.recorder is not None:
            self.recorder.record(facts)

    async def until(self, done: Callable[[list[Fact]], bool]) -> None:
        """Watch until `done(heard)`; the watch ends then."""
        task = asyncio.create_task(self._watch.run())
        deadline = time.monotonic() + LIMIT_S
        try:
            while not done(self.heard):
                assert time.monotonic() < deadline, [type(fact).__name__ for fact in self.heard[-20:]]
                await asyncio.sleep(0.02)
        finally:
            self._watch.stop()
            await task
            self._pump.close()

    def session(self) -> Session:
        session = Session()
        session.extend(self.heard)
        return session


@pytest.fixture
def watch(place: RehearsalPlace) -> Callable[..., Watched]:
    def begin(run: Run, recorder: Recorder | None = None) -> Watched:
        return Watched(run, place, recorder)

    return begin


@pytest.fixture
def launch(store: RunStore, profile: Profile) -> Callable[..., Run]:
    def begin(**knobs: Any) -> Run:
        chosen = {name.replace("_", "-"): value for name, value in knobs.items()}
        return control.launch(set_knobs(profile, chosen) if chosen else profile, store, rehearsal=True)

    return begin


def ended(facts: list[Fact]) -> bool:
    return any(isinstance(fact, Exited) for fact in facts)


def served(facts: list[Fact]) -> bool:
    return any(isinstance(fact, ServerReady) for fact in facts) and sum(isinstance(f, DecodeBatch) for f in facts) > 5


async def stop(run: Run) -> None:
    def all_steps() -> None:
        for _ in stopping.stop(run, 5.0, "the test stops it"):
            pass

    await asyncio.to_thread(all_steps)


@pytest.fixture
def made(store: RunStore) -> Callable[..., Run]:
    """A folder as an ended run leaves it, with a log and the keeper's journal."""

    def make(
        profile: str = "kimi",
        log: str = "",
        at: float = 1_800_000_000.0,
        knobs: Mapping[str, Any] | None = None,
        exited: Exited | None = None,
        facts: list[Fact] | None = None,
        seconds: float = 60.0,
    ) -> Run:
        command = {"profile": profile, "argv": ["sglang"], "started_at": at, "knobs": dict(knobs or {}), "port": None}
        launched = Launched(at=at, run="", profile=profile, command=("sglang",), knobs=dict(knobs or {}))
        run = store.create(profile, {"command.json": json.dumps(command), "server.log": log}, at)
        end = exited or Exited(at=at + seconds, code=0, requested=True)
        journal = [replace(launched, run=run.name), end]
        run.control.write_text("".join(f"{dump_fact(fact)}\n" for fact in journal))
        (run.path / "exit.json").write_text(
            json.dumps({"at": end.at, "code": end.code, "signal": end.signal, "requested": end.requested})
        )
        if facts is not None:
            recorder = Recorder(run.path, summarise=lambda _: None)
            recorder.record(facts)
            recorder.close()
        return store.load(run.name)

    return make
