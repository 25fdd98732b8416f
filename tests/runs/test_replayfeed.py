"""A run played again as the dashboard hears it."""

import asyncio
import datetime
import shutil
from collections.abc import Callable

import pytest

from tui.facts import Exited
from tui.runs.recording import RecordingError
from tui.runs.replay import FASTEST, ReplayFeed, SeekError
from tui.runs.store import Run, load_run
from tui.snapshot import Snapshot, State

AT = 1_800_000_000.0
Make = Callable[..., Run]


def log() -> str:
    def line(seconds: float, text: str) -> str:
        return datetime.datetime.fromtimestamp(AT + seconds).strftime("[%Y-%m-%d %H:%M:%S") + text + "\n"

    decodes = (
        line(
            10 + i,
            " TP0] Decode batch. #running-req: 1, #token: 900, token usage: 0.01, cuda graph: True, "
            f"gen throughput (token/s): {80 + i}.00, #queue-req: 0, ",
        )
        for i in range(50)
    )
    return line(5, "] The server is fired up and ready to roll!") + "".join(decodes)


@pytest.fixture
def run(made: Make) -> Run:
    return made(log=log(), exited=Exited(at=AT + 70, code=0, requested=True))


async def play(feed: ReplayFeed, done: Callable[[Snapshot], bool]) -> list[Snapshot]:
    """Until `done`; the task stays in `feed`'s hands no longer than that."""
    shown: list[Snapshot] = []
    task = asyncio.create_task(feed.run(shown.append))
    try:
        async with asyncio.timeout(10):
            while not shown or not done(shown[-1]):
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return shown


async def until(done: Callable[[], bool]) -> None:
    while True:
        if done():
            return
        await asyncio.sleep(0.01)


async def test_it_is_played_to_its_end_and_marked_as_a_replay(run: Run) -> None:
    feed = ReplayFeed(run, speed=1e9)
    assert feed.speed == FASTEST
    shown = await play(feed, lambda shot: shot.state is State.STOPPED)
    assert all(shot.replay and not shot.controlled and run.name in shot.title for shot in shown)
    assert [shot.at for shot in shown] == sorted(shot.at for shot in shown)
    assert shown[-1].points[-1].gen_tok_s == 129.0
    assert feed.log is not None
    assert feed.log.index.count == 51


async def test_it_begins_where_it_is_told_and_stays_while_paused(run: Run) -> None:
    feed = ReplayFeed(run, speed=1000, start_at="+00:12")
    feed.pause(True)
    shown = await play(feed, lambda shot: shot.state is State.RUNNING)
    assert shown[-1].at == AT + 12
    assert shown[-1].gen_tok_s == 82.0
    assert feed.player is not None
    assert feed.player.at == AT + 12
    # Of the log only what had been written then is there.
    assert feed.log is not None
    assert 0 < feed.log.index.count <= 6


async def test_seeking_back_shows_what_was_known_then(run: Run) -> None:
    feed = ReplayFeed(run, start_at="exit")
    feed.pause(True)
    shown: list[Snapshot] = []
    task = asyncio.create_task(feed.run(shown.append))
    try:
        async with asyncio.timeout(10):
            await until(lambda: bool(shown))
            assert shown[-1].state is State.STOPPED
            assert await feed.seek("+00:20") is None
            await until(lambda: shown[-1].at == AT + 20)
            assert shown[-1].state is State.RUNNING
            assert len(shown[-1].points) == 11
            wrong = await feed.seek("lunch")
            assert wrong is not None
            assert "No 'lunch'" in wrong
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nothing_can_be_started_or_stopped(run: Run) -> None:
    feed = ReplayFeed(run)
    assert feed.read_only
    assert feed.profiles() == ()
    assert await feed.forecast({}) is None
    assert await feed.launch("p", {}) is not None
    assert await feed.seek("ready") == "The recording is still being read."


async def test_a_place_that_is_not_there_is_told(run: Run) -> None:
    with pytest.raises(SeekError, match="lunch"):
        await play(ReplayFeed(run, start_at="lunch"), lambda _: False)


async def test_a_run_that_is_gone_says_so_and_a_damaged_one_plays_what_is_left(run: Run) -> None:
    (run.path / "exit.json").write_text("[")
    damaged = load_run(run.path)
    assert damaged.damaged is not None
    assert (await play(ReplayFeed(damaged, speed=1e9), lambda shot: shot.state is State.STOPPED))[-1].points
    shutil.rmtree(run.path)
    with pytest.raises(RecordingError, match="there is no such folder"):
        await play(ReplayFeed(load_run(run.path)), lambda _: False)
