"""The feed of a rehearsed server: launched, watched, restarted, stopped; another carries on; one of them controls."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tui.feed.live import LiveFeed
from tui.feed.looking import look
from tui.feed.place import RehearsalPlace, rehearsal_place
from tui.feed.targets import of_run
from tui.procid import alive
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.server.stopping import kill
from tui.snapshot import Snapshot, State

LIMIT_S = 60.0


@pytest.fixture
def store(tmp_path: Path):
    store = RunStore(tmp_path)
    yield store
    for run in store.active():
        list(kill(run))


@pytest.fixture
def place(store: RunStore) -> RehearsalPlace:
    return rehearsal_place(store, Settings(speed=600.0))


@asynccontextmanager
async def shown(feed: LiveFeed) -> AsyncIterator[Callable[[Callable[[Snapshot], bool]], object]]:
    """The feed, running; gives a function that waits until a snapshot is as asked."""
    changed = asyncio.Event()
    running = asyncio.create_task(feed.run(lambda _: changed.set()))

    async def until(asked: Callable[[Snapshot], bool]) -> Snapshot:
        try:
            async with asyncio.timeout(LIMIT_S):
                while not asked(feed.snapshot):
                    if running.done():
                        running.result()
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pytest.fail(f"still {feed.snapshot.state}, {feed.snapshot.progress}, {feed.snapshot.endpoint_detail}")
        return feed.snapshot

    try:
        yield until
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def serving(snapshot: Snapshot) -> bool:
    return snapshot.state is State.RUNNING and snapshot.gen_tok_s is not None and snapshot.endpoint == "ready"


async def test_launch_watch_and_stop(store: RunStore, place: RehearsalPlace, free_port: int) -> None:
    feed = LiveFeed(place, store)
    async with shown(feed) as until:
        assert await feed.launch("kimi-k2.5-base", {"port": free_port}) is None
        snapshot = await until(serving)
        assert [rank.base for rank in snapshot.ranks] == [72.33] * 8
        assert snapshot.rehearsal
        assert snapshot.controlled
        assert all(
            sum(a.gib or 0 for a in bar.segments.values()) == pytest.approx(95.593, abs=0.01) for bar in snapshot.gpus
        )
        assert feed.log is not None
        steps = [step async for step in feed.stop(5.0)]
        assert steps[-1].startswith("Stopped")
        ended = await until(lambda s: s.state is State.STOPPED)
        assert ended.gen_tok_s is None
    assert store.active() == []
    run = store.latest()
    assert run is not None
    later = look(of_run(run), place)
    assert (later.state, later.ready_at is not None) == (State.STOPPED, True)
    assert run.facts.with_suffix(".jsonl.gz").exists() or run.facts.exists()


async def test_a_crash_is_seen_with_the_tracebacks_of_all_ranks(
    store: RunStore, place: RehearsalPlace, free_port: int
) -> None:
    feed = LiveFeed(place, store)
    async with shown(feed) as until:
        assert await feed.launch("kimi-k2.5-eagle3", {"port": free_port}) is None
        snapshot = await until(lambda s: s.state is State.FAILED and s.exit_signal is not None)
        assert len(snapshot.error_lines) >= 8
        steps = [step async for step in feed.restart({"mem-fraction-static": 0.85, "port": free_port})]
        assert steps[-1].startswith("Launched")
        ready = await until(serving)
        assert ready.fraction == 0.85
        assert ready.kv_tokens == pytest.approx(116_707, abs=200)
        assert all(rank.draft == 1.5 for rank in ready.ranks)


async def test_a_death_is_told_with_its_cause_and_not_before(
    store: RunStore, place: RehearsalPlace, free_port: int
) -> None:
    feed = LiveFeed(place, store)
    verdicts: list[str] = []

    def seen(snapshot: Snapshot) -> None:
        if snapshot.verdict is not None:
            verdicts.append(snapshot.verdict.kind)

    running = asyncio.create_task(feed.run(seen))
    try:
        assert await feed.launch("kimi-k2.5-eagle3", {"port": free_port}) is None
        async with asyncio.timeout(LIMIT_S):
            while not (verdicts and feed.snapshot.state is State.FAILED):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert set(verdicts) == {"weights-over-budget"}


async def test_the_next_feed_carries_on_and_control_has_one_holder(
    store: RunStore, place: RehearsalPlace, free_port: int
) -> None:
    first = LiveFeed(place, store)
    async with shown(first) as until:
        assert await first.launch("kimi-k2.5-base", {"port": free_port}) is None
        await until(serving)
        (run,) = store.active()
        (seen,) = [server for server in await first.discover() if server.rehearsal]
        assert (seen.ours, seen.ranks) == (run.name, 8)
        second = LiveFeed(place, store, of_run(run))
        async with shown(second) as until_second:
            snapshot = await until_second(serving)
            assert snapshot.run == run.name
            assert snapshot.ready_at is not None
            (refusal,) = [step async for step in second.stop(1.0)]
            assert "controls this server now" in refusal
    third = LiveFeed(place, store, of_run(run), read_only=True)
    async with shown(third) as until_third:
        await until_third(serving)
        assert [step async for step in third.stop(1.0)] == ["This dashboard is read-only."]


async def test_a_run_folder_that_somebody_removes_is_told_and_its_server_is_stopped(
    store: RunStore, place: RehearsalPlace, free_port: int
) -> None:
    feed = LiveFeed(place, store)
    async with shown(feed) as until:
        assert await feed.launch("kimi-k2.5-base", {"port": free_port}) is None
        await until(serving)
        run = store.latest()
        assert run is not None
        try:
            shutil.rmtree(run.path)
            seen = await until(lambda s: any(caution.kind == "not-recorded" for caution in s.warnings))
            assert seen.state is State.RUNNING
            assert f"The run folder {run.path} is gone." in seen.warnings[-1].text
        finally:
            steps = [step async for step in feed.stop(5.0)]
        assert steps[-1].ok
        assert not alive(run.server)


async def test_what_others_rehearse_is_not_offered(
    store: RunStore, place: RehearsalPlace, tmp_path: Path, free_port: int
) -> None:
    feed = LiveFeed(place, store)
    assert await feed.launch("kimi-k2.5-base", {"port": free_port}) is None
    elsewhere = LiveFeed(place, RunStore(tmp_path / "elsewhere"))
    assert not [server for server in await elsewhere.discover() if server.rehearsal]
    assert [server.rehearsal for server in await feed.discover() if server.ours]


async def test_a_screen_that_is_closed_in_the_moment_of_great_news_lets_go(
    store: RunStore, place: RehearsalPlace
) -> None:
    for rounds in range(30):
        feed = LiveFeed(place, store)
        drawn = asyncio.Event()
        running = asyncio.create_task(feed.run(lambda _, drawn=drawn: drawn.set()))
        await asyncio.wait_for(drawn.wait(), LIMIT_S)
        for _ in range(rounds % 6):
            await asyncio.sleep(0)
        pump = feed._pump
        assert pump is not None
        pump.urgent.set()
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=LIMIT_S)
        assert done
