"""How long the list of 1000 runs takes: python benchmarks/runs_listing.py (the limit is 300 ms)."""

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


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))
        fill(store)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            table = listing.sort(listing.rows(store), "time")
            lines = table_lines(table)
            times.append(time.perf_counter() - began)
        damaged = sum(row.run.damaged is not None for row in table)
    best = min(times)
    print(f"{len(lines) - 1} runs, {damaged} damaged: {best * 1000:.0f} ms (limit {LIMIT_S * 1000:.0f} ms)")
    return 0 if best < LIMIT_S and damaged == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
