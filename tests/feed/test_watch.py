"""A run whose keeper was killed: it is said, the server is still watched, and its end is noticed and waited for."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tui.commands.control import serves, wait_for
from tui.commands.watchedrun import WatchedRun
from tui.feed.looking import look
from tui.feed.place import RehearsalPlace, rehearsal_place
from tui.feed.pump import Pump
from tui.feed.targets import of_run
from tui.feed.watch import Watch
from tui.procid import alive
from tui.rehearsal.machine import Settings
from tui.runs.store import Run, RunStore, load_run
from tui.server.control import launch
from tui.server.profiles import find, set_knobs
from tui.server.signals import kill_all, send_signal, server_tree
from tui.snapshot import State


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state")


@pytest.fixture
def place(store: RunStore) -> RehearsalPlace:
    return rehearsal_place(store, Settings(speed=200.0))


@pytest.fixture
def served(store: RunStore, place: RehearsalPlace, free_port: int) -> Iterator[Run]:
    """A rehearsed server that is ready."""
    profile = place.prepare(set_knobs(find("kimi-k2.5-base"), {"port": free_port}))
    run = launch(profile, store, rehearsal=True)
    try:
        assert serves(wait_for(run, place, "ready", 60, True))
        yield store.load(run.name)
    finally:
        kill_all(lambda: [*filter(alive, [run.keeper]), *server_tree(run.server, run.keeper, run.tree)], 10)


def wait(told: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not told():
        assert time.monotonic() < until
        time.sleep(0.05)


def gone(run: Run) -> bool:
    return not server_tree(run.server, run.keeper, run.tree) and not alive(run.keeper)


async def test_ready_means_that_the_port_has_answered(served: Run, place: RehearsalPlace) -> None:
    assert served.ready_at is not None
    snapshot = look(of_run(served), place)
    assert (snapshot.state, snapshot.endpoint, snapshot.warnings) == (State.RUNNING, "ready", ())


async def test_a_lost_keeper_is_said_and_the_servers_end_is_noticed(served: Run, place: RehearsalPlace) -> None:
    assert served.keeper is not None
    assert served.server is not None
    assert send_signal(served.keeper, signal.SIGKILL)
    wait(lambda: not alive(served.keeper))
    snapshot = look(of_run(served), place)
    assert snapshot.state is State.RUNNING
    assert [caution.kind for caution in snapshot.warnings] == ["keeper-gone"]

    kill_all(lambda: server_tree(served.server, None, served.tree), 10)
    wait(lambda: gone(served))
    snapshot = look(of_run(served), place)
    assert (snapshot.state, snapshot.exit_code, snapshot.warnings) == (State.FAILED, None, ())


async def test_an_end_that_the_journal_lost_is_taken_from_the_exit_note(served: Run, place: RehearsalPlace) -> None:
    assert served.server is not None
    assert send_signal(served.server, signal.SIGKILL)
    wait(lambda: gone(served))
    kept = [line for line in served.control.read_text().splitlines() if '"Exited"' not in line]
    served.control.write_text("".join(f"{line}\n" for line in kept))
    snapshot = look(of_run(served), place)
    assert (snapshot.state, snapshot.exit_signal) == (State.FAILED, "SIGKILL")
    assert [mark.text for mark in snapshot.marks].count("exit") == 1


async def test_a_server_that_ended_is_asked_nothing_over_and_over(
    served: Run, place: RehearsalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.server is not None
    assert send_signal(served.server, signal.SIGKILL)
    wait(lambda: gone(served))
    asked = 0
    ask = Watch._ask

    def counted(watch: Watch, now: float):
        nonlocal asked
        asked += 1
        return ask(watch, now)

    monkeypatch.setattr(Watch, "_ask", counted)
    pump = Pump()
    watch = Watch(of_run(served), place, pump)
    running = asyncio.create_task(watch.run())
    try:
        await asyncio.sleep(1)
    finally:
        watch.stop()
        await running
        pump.close()
    assert 1 <= asked < 20


def test_the_watch_of_a_command_sees_the_end_before_it_closes(served: Run, place: RehearsalPlace) -> None:
    watched = WatchedRun(served, place)
    watched.wait(lambda shot: shot.state is State.RUNNING, 20, lambda _: None)
    assert served.server is not None
    assert send_signal(served.server, signal.SIGKILL)
    wait(lambda: load_run(served.path).exited is not None)
    watched.close()
    assert watched.snapshot.state is State.FAILED
