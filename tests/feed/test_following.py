"""The dashboard behind a sweep goes with it from run to run, and changes nothing."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tui.factlines import dump_fact
from tui.facts import Exited, Launched
from tui.feed.following import FollowingFeed
from tui.feed.place import RehearsalPlace
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.runs.sweepplan import Case
from tui.runs.sweepstate import DONE, RUNNING, SweepStore
from tui.snapshot import Snapshot

AT = 1_800_000_000.0
LIMIT_S = 30.0


def ended_run(store: RunStore, at: float) -> str:
    """A run that was launched and stopped; its name."""
    command = {"profile": "kimi", "argv": ["sglang"], "started_at": at, "rehearsal": True}
    ended = {"at": at + 5.0, "code": 0, "requested": True}
    run = store.create("kimi", {"command.json": json.dumps(command), "exit.json": json.dumps(ended)}, at)
    facts = (
        Launched(at=at, run=run.name, profile="kimi", command=("sglang",), knobs={}),
        Exited(at=at + 5.0, code=0, requested=True),
    )
    run.control.write_text("".join(f"{dump_fact(fact)}\n" for fact in facts))
    return run.name


async def test_it_shows_the_run_of_the_case_that_was_begun_last(tmp_path: Path) -> None:
    store, sweeps = RunStore(tmp_path), SweepStore(tmp_path)
    sweep = sweeps.new([Case("kimi"), Case("kimi", {"x": 2})], {}, None)
    feed = FollowingFeed(RehearsalPlace(Settings()), store, sweep.name)
    shown: list[Snapshot] = []
    task = asyncio.create_task(feed.run(shown.append))

    async def until(run: str | None) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not shown or shown[-1].run != run:
                if task.done():
                    task.result()
                await asyncio.sleep(0.05)

    try:
        await until(None)
        first = ended_run(store, AT)
        sweep = sweep.with_trial(0, replace(sweep.trials[0], status=RUNNING, run=first))
        sweeps.save(sweep)
        await until(first)
        second = ended_run(store, AT + 60)
        sweep = sweep.with_trial(0, replace(sweep.trials[0], status=DONE))
        sweeps.save(sweep.with_trial(1, replace(sweep.trials[1], status=RUNNING, run=second)))
        await until(second)
        (sweeps.folder / f"{sweep.name}.json").write_text("{")  # what is shown stays
        await asyncio.sleep(1.5)
        assert shown[-1].run == second
        assert feed.read_only
        assert await feed.launch("kimi", {}) is not None
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
