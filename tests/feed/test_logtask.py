"""A log becomes facts in order, its unfinished bar progress, and the pane gets an index that agrees with them."""

import asyncio
import threading
from pathlib import Path

import pytest

from tui.facts import Fact, LoadProgress, LogTail, ServerReady, Traceback, WeightsBegin
from tui.feed.logtask import LogTask
from tui.feed.pump import Pump

STAMP = "[2026-11-29 12:00:00 TP0] "


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def of(kind: type[Fact], facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def test_lines_become_facts_with_their_numbers(log: Path) -> None:
    log.write_text(f"hello\n{STAMP}Load weight begin. avail mem=94.08 GB\n")
    task = LogTask(log, clock=lambda: 5.0)
    facts = task.read_all()
    (begin,) = of(WeightsBegin, facts)
    assert (begin.line, begin.rank, begin.avail_gib) == (2, "TP0", 94.08)
    (tail,) = of(LogTail, facts)
    assert (tail.lines, tail.bytes) == (2, log.stat().st_size)
    assert task.index is not None
    assert task.index.read(1, 1) == [f"{STAMP}Load weight begin. avail mem=94.08 GB"]
    task.close()


def test_an_unfinished_bar_is_progress_now_and_is_not_told_twice(log: Path) -> None:
    bar = "Loading safetensors checkpoint shards:  {p}% Completed | {n}/64 [00:06<00:30,  2.10it/s]\r"
    log.write_text(bar.format(p=19, n=12))
    task = LogTask(log)
    (progress,) = of(LoadProgress, task.read_all())
    assert (progress.done, progress.total) == (12, 64)
    assert of(LoadProgress, task.read_all()) == []
    with log.open("a") as file:
        file.write(bar.format(p=50, n=32))
    (progress,) = of(LoadProgress, task.read_all())
    assert progress.done == 32
    task.close()


def test_after_a_rotation_numbers_count_on_and_the_index_is_of_the_new_file(log: Path) -> None:
    log.write_text("one\ntwo\n")
    task = LogTask(log)
    task.read_all()
    first = task.index
    log.rename(log.with_suffix(".1"))
    log.write_text(f"{STAMP}The server is fired up and ready to roll!\n")
    facts = task.read_all()
    (ready,) = of(ServerReady, facts)
    assert ready.line == 3
    assert [tail.reset for tail in of(LogTail, facts)].count("rotated") == 1
    assert task.index is not first
    assert task.lines_before == 2
    task.close()


async def test_a_line_reaches_the_snapshot_while_the_log_is_followed(log: Path) -> None:
    pump, stop, batches = Pump(), asyncio.Event(), []
    task = LogTask(log)
    running = asyncio.create_task(task.run(pump, stop, batches.append))
    log.write_text(f"{STAMP}Load weight begin. avail mem=94.08 GB\n")
    await asyncio.wait_for(pump.urgent.wait(), 10)
    snapshot = await pump.snapshot(0.0)
    assert [rank.free_before for rank in snapshot.ranks] == [94.08]
    stop.set()
    await asyncio.wait_for(running, 10)
    assert task.index is None
    pump.close()


DYING = """Traceback (most recent call last):
  File "/sgl/launch.py", line 7, in main
    run()
TypeError: '>' not supported between instances of 'NoneType' and 'int'
"""


def test_a_look_at_a_log_that_ends_with_a_traceback_tells_it(log: Path) -> None:
    log.write_text(DYING)
    task = LogTask(log)
    (told,) = of(Traceback, task.read_all())
    assert told.exception == "TypeError"
    assert of(Traceback, task.read_all()) == []
    task.close()


async def test_the_last_words_of_a_server_are_told_without_a_line_after_them(log: Path) -> None:
    pump, stop, seen = Pump(), asyncio.Event(), []
    task = LogTask(log)
    running = asyncio.create_task(task.run(pump, stop, seen.extend))
    first, last = DYING.splitlines(keepends=True)[:-1], DYING.splitlines(keepends=True)[-1]
    log.write_text("".join(first))
    await asyncio.wait_for(task.caught_up.wait(), 10)
    with log.open("a") as file:
        file.write(last)
    await asyncio.wait_for(pump.urgent.wait(), 10)
    (told,) = of(Traceback, seen)
    assert (told.exception, told.last_line) == ("TypeError", 4)
    verdict = (await pump.snapshot(0.0)).verdict
    assert verdict is not None
    stop.set()
    await asyncio.wait_for(running, 10)
    pump.close()


async def test_a_log_is_settled_only_when_its_facts_were_pushed(log: Path) -> None:
    log.write_text(f"{STAMP}Load weight begin. avail mem=94.08 GB\n")
    task, stop = LogTask(log), asyncio.Event()
    pushing, let = threading.Event(), threading.Event()

    class SlowPump:
        def fold(self, facts: list[Fact]) -> None:
            if of(WeightsBegin, facts):
                pushing.set()
                let.wait()

    running = asyncio.create_task(task.run(SlowPump(), stop, lambda facts: None))
    try:
        assert await asyncio.to_thread(pushing.wait, 30)
        settled = asyncio.create_task(task.settled())
        done, _ = await asyncio.wait([settled], timeout=0.2)
        assert not done
        let.set()
        await asyncio.wait_for(settled, 30)
    finally:
        let.set()
        stop.set()
        await running
