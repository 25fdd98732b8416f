"""How long 1000 runs take, as a list and until they stand on the screen: python -m benchmarks.runs_listing.

The limit is 300 ms each. On a busy machine look at the CPU time beside it.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tui.runs import listing
from tui.runs.runtext import table_lines
from tui.runs.store import RunStore
from tui.runs.summary import SpeedRow, Summary, to_json
from tui.sglang.economics import BatchSpeed

LIMIT_S = 0.3
RUNS = 1000
TRIES = 5
SIZE = (120, 40)


def fill(store: RunStore) -> None:
    """Runs as they are left behind: every file that a list could read."""
    knobs = {"model-path": "/models/Kimi-K2.5", "tp-size": 8, "cuda-graph-max-bs": 128, "mem-fraction-static": 0.85}
    for number in range(RUNS):
        at = 1_800_000_000.0 + number * 600
        command = {"profile": "kimi", "argv": ["sglang"], "started_at": at, "knobs": knobs}
        run = store.create(
            "kimi", {"command.json": json.dumps(command), "exit.json": json.dumps({"at": at, "code": 0})}, at
        )
        rows = tuple(
            SpeedRow(speed=BatchSpeed(batch=batch, tok_s=80.0 * batch, samples=12), best_tok_s=90.0 * batch)
            for batch in (1, 8, 32)
        )
        summary = Summary(
            run=run.name, profile="kimi", final=True, started_at=at, outcome="stopped", knobs=knobs, speeds=rows,
            phases_s={"loading weights": 100.0}, ready_s=200.0, memory_gib={"base": 72.33, "free": 14.0},
        )  # fmt: skip
        run.summary.write_text(json.dumps(to_json(summary)))
    (store.folder / store.names()[500] / "command.json").unlink()


def listed(store: RunStore) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, damaged runs) of the list."""
    began, cpu = time.perf_counter(), time.process_time()
    table = listing.sort(listing.rows(store), "time")
    table_lines(table)
    spent = time.perf_counter() - began, time.process_time() - cpu
    return *spent, sum(row.run.damaged is not None for row in table)


async def opened(store: RunStore) -> list[tuple[float, float, float]]:
    """(wall seconds until the newest are there, until all are, CPU seconds) of opening the screen, a few times."""
    from tui.app.main import SpecdeckApp
    from tui.app.screens.runs import RunsScreen
    from tui.app.widgets.runs_table import RunsTable
    from tui.feed.live import LiveFeed
    from tui.feed.place import RehearsalPlace
    from tui.rehearsal.machine import Settings

    app = SpecdeckApp(LiveFeed(RehearsalPlace(Settings()), store))
    found = []
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for _ in range(TRIES):
            began, cpu, first = time.perf_counter(), time.process_time(), 0.0
            await app.push_screen(RunsScreen(app.dashboard._feed.history))
            table = app.screen.query_one(RunsTable)
            while str(RUNS) not in table.text().partition("\n")[0]:
                if not first and "kimi" in table.text():
                    first = time.perf_counter() - began
                await asyncio.sleep(0.002)
            whole = time.perf_counter() - began
            found.append((first or whole, whole, time.process_time() - cpu))
            app.pop_screen()
            await pilot.pause()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))
        fill(store)
        lists = [listed(store) for _ in range(TRIES)]
        screens = asyncio.run(opened(store))
    wall, cpu, damaged = min(lists)
    first, whole, screen_cpu = (min(values) for values in zip(*screens, strict=True))
    limit = f"limit {LIMIT_S * 1000:.0f} ms"
    print(f"list:   {RUNS} runs, {damaged} damaged: {wall * 1000:.0f} ms, CPU {cpu * 1000:.0f} ms ({limit})")
    print(
        f"screen: the newest after {first * 1000:.0f} ms, all after {whole * 1000:.0f} ms, "
        f"CPU {screen_cpu * 1000:.0f} ms ({limit})"
    )
    return 0 if max(wall, first) < LIMIT_S and damaged == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
