"""The forecast of one GPU as a bar, in the live bars' terms. What is not named is free, so a bar always sums up."""

from collections.abc import Mapping

from tui.forecast.amounts import computed, total, unknown
from tui.forecast.judge import Judgement
from tui.forecast.machine import Gpu
from tui.forecast.result import GpuForecast
from tui.forecast.situation import GIB, Situation
from tui.snapshot import UNKNOWN, Amount, GpuBar, Source


def forecast_gpu(
    situation: Situation, gpu: Gpu, before: Amount, verdict: Judgement | None, *, tight: bool, fraction: float | None
) -> GpuForecast:
    """One GPU that gets a rank. `before`: P of this GPU; the pool is the tightest one's, as on a real server."""
    size = gpu.total_gib if gpu.total_gib is not None else before.gib
    segments = _segments(situation, size, before, verdict)
    smallest, budget = situation.free_before.gib, None
    if fraction is not None and smallest is not None:
        # Before 0.5.14 the draft stands outside the fraction: the tick moves by it, so that KV is measured right.
        outside = 0.0 if situation.draft_counted else situation.cost.draft_net.gib or 0.0
        budget = smallest * fraction + outside
    bar = GpuBar(
        index=gpu.index,
        name=gpu.name,
        uuid=gpu.uuid,
        kind=gpu.kind,
        total_gib=size,
        segments=_bar_segments(segments, gpu),
        budget_gib=budget,
        tight=tight,
        foreign=(f"other processes: {gpu.foreign_gib:.1f} GiB",) if gpu.foreign_gib else (),
    )
    return GpuForecast(bar=bar, segments=segments, free_before=before)


def idle_gpu(gpu: Gpu) -> GpuForecast:
    """A GPU without a rank."""
    free = UNKNOWN if gpu.free_gib_now is None else computed(gpu.free_gib_now, "no rank runs here")
    bar = GpuBar(index=gpu.index, name=gpu.name, uuid=gpu.uuid, kind=gpu.kind, total_gib=gpu.total_gib,
                 segments={"free": free}, note="not used")  # fmt: skip
    return GpuForecast(bar=bar, segments={"free": free}, used=False)


def _segments(
    situation: Situation, size: float | None, before: Amount, verdict: Judgement | None
) -> Mapping[str, Amount]:
    draft, graphs = situation.cost.draft_net, situation.cost.graphs
    found = {"base": situation.base, "draft": draft, "graphs": graphs, **_pool_segments(situation, verdict)}
    other = unknown("what is free before the weights is not known")
    if size is not None and before.gib is not None:
        table = situation.request_table_gib(verdict.pool) if verdict and verdict.pool.fits else 0.0
        taken = max(0.0, size - before.gib)
        other = Amount(
            gib=taken + table,
            source=before.source,
            why=f"{taken:.2f} GiB before the weights (driver, context, communication, other processes), "
            f"{table:.2f} request table",
        )
    named = sum(amount.gib or 0.0 for amount in (*found.values(), other))
    free = unknown("the size of the GPU is not known")
    if size is not None:
        missing = [name for name, amount in found.items() if amount.gib is None]
        why = "the rest; activations are taken from it" + (f"; {', '.join(missing)} is not known" if missing else "")
        free = Amount(gib=size - named, source=total(*_known(found), other).source, why=why)
    return {**found, "other": other, "free": free}


def _known(segments: Mapping[str, Amount]) -> list[Amount]:
    return [amount for amount in segments.values() if amount.gib is not None]


def _pool_segments(situation: Situation, verdict: Judgement | None) -> dict[str, Amount]:
    """KV of target and draft and recurrent state: nothing of it exists where the server refuses to start."""
    if verdict is None or situation.cell is None:
        reason = unknown("the pool cannot be computed")
        return {"kv_base": reason, "kv_draft": reason, "state": reason}
    pool = verdict.pool
    if not pool.fits:
        none = computed(0.0, f"{pool.kv_budget_gib:+.2f} GiB for KV: the server refuses to start")
        return {"kv_base": none, "kv_draft": none, "state": none}
    why = f"{pool.tokens} tokens of {situation.cell.target:g} B"
    kv = Amount(
        gib=pool.kv_gib(situation.cell.target),
        source=max((situation.cell_source, situation.base.source, situation.free_before.source), key=_rank),
        why=why,
        low_gib=verdict.tokens_low * situation.cell.target / GIB,
        high_gib=verdict.tokens_high * situation.cell.target / GIB,
    )
    state = computed(pool.state.state_gib, f"{pool.state.slots} slots") if pool.state else computed(0.0, "none")
    return {"kv_base": kv, "kv_draft": situation.draft_kv(pool), "state": state}


def _rank(source: Source) -> int:
    return list(Source).index(source)


def _bar_segments(segments: Mapping[str, Amount], gpu: Gpu) -> dict[str, Amount]:
    """The live bar's segments: KV in one piece, other processes apart where they are known."""
    foreign, other = gpu.foreign_gib or 0.0, segments["other"]
    if other.gib is not None:
        foreign = min(foreign, other.gib)
        other = Amount(gib=other.gib - foreign, source=other.source, why=other.why)
    # A part that is not known is in `free`, so the whole of the rest stays drawn.
    kv = [segments[name] for name in ("kv_base", "kv_draft", "state") if segments[name].gib is not None]
    return {
        "base": segments["base"],
        "draft": segments["draft"],
        "graphs": segments["graphs"],
        "kv": total(*kv) if kv else UNKNOWN,
        "other": other,
        "foreign": computed(foreign, "other processes"),
        "free": segments["free"],
    }
