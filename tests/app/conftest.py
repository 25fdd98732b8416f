"""A feed that needs no machine: seeded snapshots of every state, at a frozen time."""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from tui.facts import Evidence, Fix, Verdict
from tui.port import FlagInfo, Place, ProfileChoice, RunComparison, RunRow, SeenServer, SweepRow, SweepView, Told
from tui.runs.nocontrol import NoControl
from tui.snapshot import (
    Ages,
    Amount,
    Caution,
    GpuBar,
    Knob,
    Phase,
    PlotMark,
    Point,
    Progress,
    Snapshot,
    Source,
    State,
)
from tui.sources.lineindex import LineIndex

NOW = 1_795_956_000.0  # 2026-11-29 12:40:00 UTC
TOTAL = 95.59
P = 94.08
KNOBS = (
    Knob(name="model-path", value="/models/Kimi-K2.5"),
    Knob(name="tp-size", value=8),
    Knob(name="mem-fraction-static", value=0.85),
    Knob(name="cuda-graph-max-bs", value=128),
    Knob(name="speculative-algorithm", value="EAGLE3"),
    Knob(name="speculative-draft-model-path", value="/models/kimi-k2.5-eagle3"),
    Knob(name="speculative-num-steps", value=2),
    Knob(name="speculative-eagle-topk", value=4),
    Knob(name="speculative-num-draft-tokens", value=4),
    Knob(name="context-length", value=262144),
    Knob(name="chunked-prefill-size", value=8192, origin="server"),
    Knob(name="max-running-requests", value=48, origin="server"),
    Knob(name="attention-backend", value="flashinfer", origin="server"),
    Knob(name="kv-cache-dtype", value="auto", origin="server"),
)


def measured(gib: float | None, why: str = "the server's log") -> Amount:
    return Amount(why="not logged") if gib is None else Amount(gib=gib, source=Source.MEASURED, why=why)


def gpu(
    index: int,
    base: float | None = None,
    draft: float | None = None,
    graphs: float | None = None,
    kv: float | None = None,
    other: float = 0.6,
    foreign: float = 0.0,
    **more: object,
) -> GpuBar:
    """A bar whose free memory is what the rest leaves."""
    named = [size for size in (base, draft, graphs, kv) if size is not None]
    free = TOTAL - sum(named) - other - foreign
    segments = {
        "base": measured(base, "the server's log: Load weight end, mem usage, target"),
        "draft": measured(draft, "the server's log: Load weight end, mem usage, draft"),
        "graphs": measured(graphs, "the server's log: Capture end, mem usage"),
        "kv": measured(kv, "the server's log: KV Cache is allocated"),
        "other": measured(other, "in use by the driver's count, less every named segment"),
        "foreign": measured(foreign, "other processes on this GPU, by the driver"),
        "free": measured(free, "free memory by the driver"),
    }
    settings = {"name": "NVIDIA H20", "uuid": f"GPU-{index:08x}", "rank": f"TP{index}", "total_gib": TOTAL}
    return GpuBar(index=index, segments=segments, **{**settings, **more})


def gpus(
    count: int = 8, usage: float | None = None, fraction: float | None = 0.85, **sizes: float | None
) -> tuple[GpuBar, ...]:
    """Bars that differ a little, the fourth tightest."""
    kv = sizes.get("kv")
    bars = []
    for index in range(count):
        other = 1.9 if index == 3 else 1.2 + 0.05 * (index % 4)
        bars.append(
            gpu(
                index,
                **sizes,
                other=other,
                tight=index == 3,
                kv_used_gib=None if kv is None or usage is None else kv * usage,
                budget_gib=None if fraction is None else P * fraction,
                util_percent=97.0 - index,
                power_w=412.0 + 3 * index,
                temperature_c=58.0 + index,
            )
        )
    return tuple(bars)


def curve(seconds: int, speed: float = 89.5, accept: float | None = 2.31, seed: int = 7) -> tuple[Point, ...]:
    """One point a second until NOW."""
    rng = random.Random(seed)
    points = []
    for age in range(seconds, -1, -1):
        noise = rng.uniform(-0.04, 0.04)
        points.append(
            Point(
                at=NOW - age,
                gen_tok_s=speed * (1 + noise),
                accept_len=None if accept is None else accept * (1 + noise / 2),
                token_usage=0.62,
                running=12,
                queue=0,
            )
        )
    return tuple(points)


def empty() -> Snapshot:
    idle = tuple(
        gpu(i, 0.0, 0.0, 0.0, 0.0, other=0.45, rank=None, foreign=9.8 if i == 5 else 0.0, tight=i == 5)
        for i in range(8)
    )
    return Snapshot(at=NOW, state=State.STOPPED, gpus=idle, ages=Ages(gpu_s=0.4))


def no_machine() -> Snapshot:
    return Snapshot(at=NOW, gpu_error="no NVIDIA driver library on this machine; `specdeck demo` shows a simulated one")


def _running(**more: object) -> Snapshot:
    settings = {
        "at": NOW,
        "state": State.RUNNING,
        "run": "2026-11-29T12-20-02_kimi-eagle3",
        "profile": "kimi-eagle3",
        "title": "kimi-eagle3",
        "controlled": True,
        "sglang_version": "0.5.9",
        "model": "/models/Kimi-K2.5",
        "url": "http://127.0.0.1:30000",
        "endpoint": "ready",
        "knobs": KNOBS,
        "fraction": 0.85,
        "ages": Ages(log_s=0.3, gpu_s=0.5, endpoint_s=0.2),
    }
    return Snapshot(**{**settings, **more})


def serving() -> Snapshot:
    points = curve(220)
    return _running(
        progress=Progress(phase=Phase.SERVING, since=NOW - 724, launched_at=NOW - 1190),
        ready_at=NOW - 724,
        gpus=gpus(usage=0.62, base=72.33, draft=1.50, graphs=2.10, kv=7.64),
        kv_tokens=116_707,
        token_usage=0.62,
        gen_tok_s=89.5,
        accept_len=2.31,
        running=12,
        queue=3,
        points=points,
        marks=(PlotMark(at=NOW - 230, text="ready"),),
        log_lines=4210,
    )


def cautioned() -> Snapshot:
    return replace(
        serving(),
        warnings=(
            Caution(
                kind="kv-pressure", text="KV cache 97 % full, 3 requests queued: they wait for tokens, not for compute."
            ),
        ),
        disagreements=("graphs of TP2: the log says 2.10 GiB, /server_info 2.44 GiB",),
    )


PHASES: dict[Phase, tuple[float, float | None, str, dict[str, float | None]]] = {
    Phase.IMPORTING: (6, None, "", {}),
    Phase.DISTRIBUTED: (14, None, "", {}),
    Phase.WEIGHTS: (130, 45.0, "shard 29/64", {"base": 33.1}),
    Phase.DRAFT_WEIGHTS: (401, 50.0, "shard 1/2", {"base": 72.33, "draft": 0.8}),
    Phase.KV_POOL: (420, None, "", {"base": 72.33, "draft": 1.5, "kv": 3.2}),
    Phase.GRAPHS: (431, 37.0, "graph bs 64", {"base": 72.33, "draft": 1.5, "kv": 7.64, "graphs": 0.9}),
    Phase.WARMUP: (470, None, "", {"base": 72.33, "draft": 1.5, "kv": 7.64, "graphs": 2.1}),
}


def loading(phase: Phase = Phase.WEIGHTS) -> Snapshot:
    elapsed, percent, text, sizes = PHASES[phase]
    parts = {name: sizes.get(name) for name in ("base", "draft", "graphs", "kv")}
    return _running(
        state=State.STARTING,
        endpoint="starting",
        progress=Progress(
            phase=phase,
            since=NOW - elapsed / 2,
            percent=percent,
            text=text,
            launched_at=NOW - elapsed,
            expected_phase_s=372.0,
            expected_total_s=480.0,
        ),
        gpus=gpus(fraction=0.85, **parts),
        marks=(PlotMark(at=NOW - elapsed, text="launch"),),
    )


VERDICT = Verdict(
    kind="kv-no-room",
    title="No room for the KV cache: the weights are larger than the static budget",
    why=(
        "mem-fraction-static 0.76 of the 94.08 GiB that were free allows 71.50 GiB for weights and KV cache together, "
        "and the weights alone take 72.33 GiB: 0.83 GiB are missing. SGLang lowered the automatic fraction because it "
        "reserved 2 GiB for the draft. The fraction must go up, not down: it starts from 0.769."
    ),
    confidence="certain",
    evidence=(
        Evidence(line=3107, text="[TP0] Load weight end. avail mem=21.75 GB, mem usage=72.33 GB."),
        Evidence(line=3119, text="RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ),
    numbers={"missing_gib": 0.83, "floor": 0.769},
    fixes=(Fix(knob="mem-fraction-static", old=None, new=0.85, why="leaves 7.64 GiB of KV cache, 116 707 tokens"),),
)


def crashed() -> Snapshot:
    return replace(
        _running(
            state=State.FAILED,
            state_reason="exit code 1 before it was ready",
            endpoint="",
            progress=Progress(phase=Phase.ENDED, since=NOW - 3, launched_at=NOW - 415),
            gpus=gpus(fraction=0.76, base=72.33),
            fraction=0.76,
            verdict=VERDICT,
            error_lines=(3119,),
            exit_code=1,
            exited_at=NOW - 3,
            ages=Ages(log_s=3.0, gpu_s=0.5),
            points=curve(180, 82.0, None)[:120],
            marks=(PlotMark(at=NOW - 150, text="launch"), PlotMark(at=NOW - 3, text="exit")),
        ),
        knobs=tuple(knob for knob in KNOBS if knob.name != "mem-fraction-static"),
    )


def replayed() -> Snapshot:
    return replace(
        serving(), title="replay of 2026-11-29T12-20-02_kimi-eagle3", controlled=False, rehearsal=True, ages=Ages()
    )


def many(count: int = 64) -> Snapshot:
    rng = random.Random(3)
    bars = tuple(
        gpu(i, 72.33, 1.5, 2.1, 7.64, other=1.0 + rng.random() * 4, budget_gib=80.0, kv_used_gib=3.0)
        for i in range(count)
    )
    least = min(bars, key=lambda bar: bar.segments["free"].gib or 0.0)
    return replace(serving(), gpus=tuple(replace(bar, tight=bar is least) for bar in bars))


def hostile() -> Snapshot:
    """Every text that comes from outside tries to be more than text."""
    evil = "\x1b[31mred\x1b]52;c;ZXZpbA==\x07[bold]x[/bold]\u202etxt\u200b\x00\n[link=evil]"
    return replace(
        serving(),
        title=evil,
        model=evil,
        sglang_version=evil,
        knobs=(Knob(name=evil, value=evil),),
        gpus=(replace(gpu(0, 10.0), name=evil, rank=evil, foreign=(evil,), note=evil), replace(gpu(1), error=evil)),
        marks=(PlotMark(at=NOW - 100, text=evil),),
        warnings=(Caution(kind="x", text=evil),),
        verdict=Verdict(
            kind="x",
            title=evil,
            why=evil,
            confidence="likely",
            evidence=(Evidence(line=1, text=evil),),
            fixes=(Fix(knob=evil, old=evil, new=evil, why=evil),),
        ),
    )


TRACEBACK = """Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 3030, in run_scheduler_process
    scheduler = Scheduler(
  File "/opt/sglang/srt/model_executor/model_runner.py", line 1540, in init_memory_pool
    raise RuntimeError(
RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.
"""


def log_text(kind: str) -> str:
    """The log of a server that decodes ("decode"), loads ("start") or died of eight tracebacks ("crash")."""
    if kind == "decode":
        lines = [
            f"[2026-11-29 12:{38 + at // 60}:{at % 60:02d} TP0] Decode batch, #running-req: 12, "
            f"#token: {72_100 + 90 * at}, token usage: 0.62, accept len: 2.31, cuda graph: True, "
            f"gen throughput (token/s): {89.5 + at % 7 / 10:.2f}, #queue-req: 3"
            for at in range(90)
        ]
        return "\n".join(lines) + "\n"
    stamp = "2026-11-29 12:32"
    lines = [f"[{stamp}:{at:02d} TP{at % 8}] Load weight begin. avail mem=94.08 GB" for at in range(8)]
    lines += [f"[{stamp}:{at + 9:02d} TP{at % 8}] shard {at + 20}/64 read" for at in range(40)]
    if kind == "crash":
        lines += [f"[{stamp}:50 TP{at}] Load weight end. avail mem=21.75 GB, mem usage=72.33 GB." for at in range(8)]
        lines += [f"[{stamp}:52 TP{at}] {TRACEBACK}" for at in range(8)]
        lines.append(f"[{stamp}:53] Received sigquit from a child process. It usually means the child failed.")
    return "\n".join(lines) + "\n"


def written(kind: str) -> SimpleNamespace:
    """A log for `FakeFeed.log`, in a file that has no name any more."""
    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        file.write(log_text(kind))
        file.flush()
        index = LineIndex.open(file.name)
    while index.grow():
        pass
    return SimpleNamespace(index=index, lines_before=0)


@dataclass(frozen=True)
class FakeForecast:
    bars: tuple[GpuBar, ...]
    verdict: str
    fits: bool | None
    kv_tokens: int | None = None
    suggestion: Mapping[str, object] = field(default_factory=dict)
    fraction_formula: str = "(97887 - (512 constant + 12288 activations)) / 97887 = 0.869"


def fitting() -> FakeForecast:
    bars = gpus(base=72.33, draft=1.50, graphs=2.10, kv=2.94, fraction=0.80)
    return FakeForecast(bars, "Fits: 2.94 GiB of KV for 44 900 tokens, and 18.82 GiB of slack.", True)


def many_forecast() -> FakeForecast:
    bars = tuple(
        replace(bar, segments={**bar.segments, "kv": measured(2.94)}, tight=bar.index == 17) for bar in many().gpus
    )
    return FakeForecast(bars, "Fits: 2.94 GiB of KV for 44 900 tokens, and 18.82 GiB of slack.", True)


def refused() -> FakeForecast:
    bars = gpus(base=72.33, draft=1.50, graphs=2.10, kv=0.0, fraction=0.76)
    return FakeForecast(
        bars, "Will not start: 0.83 GiB are missing. The first fraction that starts is 0.769, try 0.85.", False,
        suggestion={"mem-fraction-static": 0.85},
    )  # fmt: skip


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


class FakeHistory:
    """Four runs, one of them damaged. `asked` holds what was done; `refusal` is what every change answers."""

    def __init__(self, rows: tuple[RunRow, ...] = RUNS) -> None:
        self.rows = rows
        self.asked: list[tuple[object, ...]] = []
        self.refusal: str | None = None
        self.sweeps = FakeSweeps()

    async def runs(self, limit: int | None = None) -> tuple[RunRow, ...]:
        return self.rows[:limit]

    async def details(self, name: str) -> str:
        return f"{name}\nprofile and knobs"

    def _change(self, name: str, **changes: object) -> str | None:
        if self.refusal is None:
            self.rows = tuple(replace(row, **changes) if row.name == name else row for row in self.rows)
        return self.refusal

    async def pin(self, name: str, baseline: bool) -> str | None:
        self.asked.append(("pin", name, baseline))
        return self._change(name, baseline=baseline)

    async def annotate(self, name: str, text: str) -> str | None:
        self.asked.append(("annotate", name, text))
        return self._change(name, note=text)

    async def delete(self, name: str) -> str | None:
        self.asked.append(("delete", name))
        if self.refusal is None:
            self.rows = tuple(row for row in self.rows if row.name != name)
        return self.refusal

    async def compare(self, names) -> RunComparison | str:
        self.asked.append(("compare", *names))
        return comparison() if len(names) > 1 else "Mark a second run (space), or pin one as the baseline (b)."

    def replay(self, name: str) -> "FakeFeed":
        self.asked.append(("replay", name))
        feed = FakeFeed(replace(replayed(), playback="1x, 0:00 of 18:05"), read_only=True)
        feed.playback = FakePlayback()
        return feed


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


class FakePlayback:
    """Writes down what was asked of it."""

    places = (Place(at_s=2.0, kind="phase", name="loading weights"), Place(at_s=400.0, kind="crash", name="traceback"))

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.paused, self.speed = False, 1.0

    def pause(self, paused: bool | None = None) -> bool:
        self.paused = not self.paused if paused is None else paused
        self.asked.append("pause")
        return self.paused

    def faster(self, factor: float) -> float:
        self.speed *= factor
        return self.speed

    async def step(self, forward: bool = True) -> None:
        self.asked.append(("step", forward))

    async def seek(self, where: str) -> str | None:
        self.asked.append(("seek", where))
        return None if where != "nowhere" else "No 'nowhere' in this recording."

    async def jump(self, forward: bool = True) -> str | None:
        self.asked.append(("jump", forward))
        return "loading weights" if forward else None


class FakeFeed(NoControl):
    """Gives its snapshot once, then whatever `push` gives it. Control calls are recorded in `asked`."""

    def __init__(self, snapshot: Snapshot, forecast: FakeForecast | None = None, read_only: bool = False) -> None:
        self.snapshot = snapshot
        self.log = None
        self.read_only = read_only
        self.greeting = ""
        self.caption = ""
        self.leaving = "The server stays."
        self.history = FakeHistory()
        self.playback = None
        self.asked: list[tuple[object, ...]] = []
        self.next_forecast = forecast
        self.findings: tuple[object, ...] = ()
        self.survivors: tuple[str, ...] = ()
        self.servers: tuple[SeenServer, ...] = ()
        self.owner = ""
        self.going_on = asyncio.Event()  # cleared by a test, control stands still between two steps
        self.going_on.set()
        self.failure: Exception | None = None
        self._sink: Callable[[Snapshot], None] | None = None

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        if self.failure is not None:
            raise self.failure
        self._sink = on_snapshot
        on_snapshot(self.snapshot)
        await asyncio.Event().wait()

    def push(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        if self._sink is not None:
            self._sink(snapshot)

    def profiles(self) -> tuple[ProfileChoice, ...]:
        return (
            ProfileChoice("kimi-base", "profiles/kimi-base.toml", "Kimi-K2.5 INT4, tensor parallel 8, no speculation"),
            ProfileChoice("kimi-eagle3", "profiles/kimi-eagle3.toml", "the same with an EAGLE-3 draft"),
            ProfileChoice("broken", "profiles/broken.toml", "", "knob speculative-algo is not known to SGLang 0.5.9"),
        )

    def flags(self) -> tuple[FlagInfo, ...]:
        return (
            FlagInfo("mem-fraction-static", "float", default=None, help="Share of memory for weights and KV cache."),
            FlagInfo("cuda-graph-max-bs", "int", default=512, help="Largest batch size to capture."),
            FlagInfo("speculative-algorithm", "str", ("EAGLE", "EAGLE3", "NGRAM", "STANDALONE")),
            FlagInfo("speculative-num-steps", "int"),
        )

    async def forecast(self, knobs: Mapping[str, object]) -> FakeForecast | None:
        self.asked.append(("forecast", dict(knobs)))
        return self.next_forecast

    async def forecast_launch(self, profile: str, knobs: Mapping[str, object]) -> FakeForecast | None:
        return self.next_forecast

    async def preflight(self, profile: str | None, knobs: Mapping[str, object]) -> tuple[object, ...]:
        return self.findings

    async def command(self, knobs: Mapping[str, object]) -> str:
        return "python3 -m sglang.launch_server" + "".join(f" --{name} {value}" for name, value in knobs.items())

    async def save_profile(self, name: str, knobs: Mapping[str, object]) -> str:
        self.asked.append(("save", name, dict(knobs)))
        return f"profiles/{name}.toml"

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        self.asked.append(("launch", profile, dict(knobs)))
        return None

    async def stop(self, grace_s: float) -> AsyncIterator[Told]:
        self.asked.append(("stop", grace_s))
        yield Told("SIGTERM sent, waiting 10 s", "waiting", 10.0)
        await self.going_on.wait()
        for problem in self.survivors:
            yield Told(problem, "problem", ok=False)
        yield Told("stopped, memory released", "done", ok=not self.survivors)

    async def kill(self) -> str | None:
        self.asked.append(("kill",))
        self.going_on.set()
        return None

    async def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[Told]:
        self.asked.append(("restart", dict(knobs)))
        yield Told("stopping")
        await self.going_on.wait()
        yield Told("stopped")
        self.asked.append(("relaunched",))
        yield Told("launched", "done")

    async def go_back(self) -> AsyncIterator[Told]:
        self.asked.append(("go back",))
        yield Told("back to the run before", "done")

    async def discover(self) -> tuple[SeenServer, ...]:
        return self.servers

    async def attach(self, pid: int) -> str | None:
        self.asked.append(("attach", pid))
        return None

    async def adopt(self, pid: int) -> str | None:
        self.asked.append(("adopt", pid))
        return None


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Nothing of the operator's terminal, time zone or configuration reaches a test."""
    for name in ("NO_COLOR", "COLORTERM", "TMUX", "TEXTUAL_THEME", "SPECDECK_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()


@pytest.fixture
def fake() -> SimpleNamespace:
    """Everything this file makes: `fake.serving()`, `fake.FakeFeed(...)` and so on."""
    return SimpleNamespace(**{name: thing for name, thing in globals().items() if not name.startswith("_")})
