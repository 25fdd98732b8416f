"""Seeded snapshots of every state, at a frozen time."""

import random
from dataclasses import replace

from tui.facts import Evidence, Fix, Verdict
from tui.snapshot import Ages, Amount, Caution, GpuBar, Knob, Phase, PlotMark, Point, Progress, Snapshot, Source, State

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
    return Snapshot(at=NOW, state=State.UNKNOWN, gpus=idle, ages=Ages(gpu_s=0.4))


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
