"""Sweeps of every outcome."""

from dataclasses import replace

from fakes.runs import RUNS
from tui.port import SweepRow, SweepView

SWEEP = SweepView(
    name="2026-11-29T12-10-00",
    state="running",
    rows=(
        SweepRow(title="kimi-base cuda-graph-max-bs=512", state="done", place=3, kv_tokens=3798, free_gib=19.4,
                 ready_s=560.0, speeds=(82.0, 501.2), share=82.0 / 120.5, run=RUNS[2].name, seconds=640.0,
                 case="kimi-base port=30000 cuda-graph-max-bs=512"),
        SweepRow(title="kimi-base cuda-graph-max-bs=128", state="done", place=2, kv_tokens=14_260, free_gib=19.3,
                 ready_s=452.0, speeds=(89.5, 536.0), share=89.5 / 120.5, run=RUNS[2].name, seconds=530.0,
                 case="kimi-base port=30000 cuda-graph-max-bs=128"),
        SweepRow(title="kimi-eagle3 mem-fraction-static=0.76", state="skipped",
                 words="Will not start: the weights leave -0.83 GiB for KV at 0.76; the floor is 0.7688.",
                 case="kimi-eagle3 port=30000 mem-fraction-static=0.76"),
        SweepRow(title="kimi-eagle3 mem-fraction-static=0.85", state="done", place=1, kv_tokens=116_707, free_gib=11.8,
                 ready_s=466.0, speeds=(120.5, 402.0), accept_len=2.31, share=1.0, run=RUNS[0].name, seconds=550.0,
                 case="kimi-eagle3 port=30000 mem-fraction-static=0.85"),
        SweepRow(title="kimi-eagle3 mem-fraction-static=0.93", state="failed", run=RUNS[1].name, seconds=300.0,
                 words="capture-oom: No memory was left for the CUDA graphs.",
                 case="kimi-eagle3 port=30000 mem-fraction-static=0.93"),
        SweepRow(title="kimi-eagle3 speculative-num-steps=3", state="running", run="2026-11-29T12-38-00_kimi-eagle3",
                 words="loading weights, shard 12/64, 40 s", case="kimi-eagle3 port=30000 speculative-num-steps=3"),
        SweepRow(title="kimi-eagle3 speculative-eagle-topk=8", state="planned",
                 words="Fits: 7.64 GiB of KV cache, 116 707 tokens.",
                 case="kimi-eagle3 port=30000 speculative-eagle-topk=8"),
        SweepRow(title="kimi-eagle3 mem-fraction-static=0.7", state="will be skipped", words="Will not start.",
                 case="kimi-eagle3 port=30000 mem-fraction-static=0.7"),
    ),
    workloads=("decode-1", "decode-8"),
    elapsed_s=2054.0,
    left_s=930.0,
    budget_s=7200.0,
    best="kimi-eagle3 mem-fraction-static=0.85: 120.5 tok/s at decode-1, +47% against kimi-base cuda-graph-max-bs=512",
    economy=(
        "Does speculation pay? kimi-eagle3 mem-fraction-static=0.85 against kimi-base cuda-graph-max-bs=128:",
        "Batch 1: pays, +35%: accept length 2.31 against 1.72 to break even (step 19.2 ms against 11.2 ms).",
        "Batch 8: does not pay, -25%: accept length 2.31 against 3.08 to break even.",
    ),
)  # fmt: skip


class FakeSweeps:
    """One that runs and an older one that was interrupted. `asked` holds what was done."""

    def __init__(self) -> None:
        rows = tuple(replace(row, state="planned", words="") if row.state == "running" else row for row in SWEEP.rows)
        self.all = {
            SWEEP.name: SWEEP,
            "2026-11-28T09-00-00": replace(
                SWEEP, name="2026-11-28T09-00-00", state="interrupted", rows=rows, budget_s=None
            ),
        }
        self.asked: list[tuple[str, str]] = []
        self.refusal: str | None = None

    async def names(self) -> tuple[str, ...]:
        return tuple(self.all)

    async def view(self, name: str) -> SweepView:
        return self.all[name]

    async def cancel(self, name: str) -> str | None:
        self.asked.append(("cancel", name))
        return self.refusal

    async def resume(self, name: str) -> str | None:
        self.asked.append(("resume", name))
        return self.refusal
