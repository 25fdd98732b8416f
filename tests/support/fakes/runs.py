"""Recorded runs, and the comparison of two."""

from fakes.snapshots import NOW, gpu
from tui.port import RunComparison, RunRow

RUNS = (
    RunRow(
        name="2026-11-29T12-20-02_kimi-eagle3",
        profile="kimi-eagle3",
        started_at=NOW - 1190,
        outcome="serving",
        changed="mem-fraction-static unset -> 0.85",
        algorithm="EAGLE3",
        ready_s=466.0,
        kv_tokens=116_707,
        free_gib=12.0,
        best_tok_s=131.0,
        speeds=((1, 120.5), (8, 402.0)),
        accept_len=2.31,
        alive=True,
        knobs="mem-fraction-static=0.85 speculative-algorithm=EAGLE3",
    ),
    RunRow(
        name="2026-11-29T12-02-40_kimi-eagle3",
        profile="kimi-eagle3",
        started_at=NOW - 2240,
        outcome="failed to start",
        verdict="kv-no-room",
        algorithm="EAGLE3",
        knobs="speculative-algorithm=EAGLE3",
    ),
    RunRow(
        name="2026-11-29T11-31-12_kimi-base",
        profile="kimi-base",
        started_at=NOW - 4128,
        outcome="stopped",
        changed="cuda-graph-max-bs 512 -> 128",
        ready_s=452.0,
        kv_tokens=14_205,
        free_gib=16.4,
        best_tok_s=93.0,
        speeds=((1, 89.5), (8, 377.0)),
        note="the one to beat",
        baseline=True,
        knobs="cuda-graph-max-bs=128",
    ),
    RunRow(name="2026-11-29T11-02-00_lost", profile="lost", damaged="command.json is missing", outcome="damaged"),
)


def comparison() -> RunComparison:
    """The baseline against EAGLE-3."""
    sizes = ((72.33, 0.0, 3.0, 0.93, 1.2), (72.33, 1.5, 2.1, 7.64, 1.2))
    bars = tuple(
        gpu(i, base, draft, graphs, kv, other=other, name=RUNS[2 - 2 * i].name)
        for i, (base, draft, graphs, kv, other) in enumerate(sizes)
    )
    return RunComparison(
        runs=(RUNS[2].name, RUNS[0].name),
        outcomes=("stopped", "serving"),
        knobs=(("mem-fraction-static", ("unset", "0.85")), ("speculative-algorithm", ("unset", "EAGLE3"))),
        bars=bars,
        kv_tokens=(14_205, 116_707),
        speeds=("120.5 against 89.5 tok/s at batch 1 (+35 %), 12 samples each, spread 119–122 against 89–90.",),
        economy=("Batch 1: pays, +35%: accept length 2.31 against 1.72 to break even (step 19.2 ms against 11.2 ms).",),
        ready=f"{RUNS[2].name} was ready after 452 s; {RUNS[0].name} was ready after 466 s.",
    )
