"""Where did every GiB go: the ledger of the log and a GPU sample become the bars of the screen. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tui.facts import GpuReading, GpuSample
from tui.frozen import frozen
from tui.snapshot import SEGMENTS, UNKNOWN, Amount, GpuBar, Phase, RankMemory, Source

# Memory that comes and goes between two readings (allocator blocks, cuBLAS workspaces) is not worth a word.
NOISE_GIB = 0.05
# The segment that grows in a phase: memory taken since the phase began belongs to it before the log says how much.
GROWING = {
    Phase.WEIGHTS: "base",
    Phase.DRAFT_WEIGHTS: "draft",
    Phase.KV_POOL: "kv",
    Phase.GRAPHS: "graphs",
}


@frozen
class BarInputs:
    """What the bars are made of. `pids`: the server's tree; `phases`: the phase of each rank by its name."""

    ranks: tuple[RankMemory, ...] = ()
    sample: GpuSample | None = None
    pids: frozenset[int] = frozenset()
    visible_uuids: tuple[str, ...] | None = None
    args: Mapping[str, Any]
    phases: Mapping[str, Phase]
    token_usage: float | None = None
    fraction: float | None = None
    draft_outside_fraction: bool = False  # SGLang <= 0.5.13: draft weights live in the slack
    alive: bool = True


def gpu_index(rank: str, args: Mapping[str, Any]) -> int:
    """The position among the server's visible GPUs of rank "DP1 PP0 TP3".

    Source: SGLang 0.5.23 `managers/data_parallel_controller.py` and `entrypoints/engine.py` (`base_gpu_id`,
    `gpu_id_step`): with DP attention the TP rank counts over all replicas, without it each replica has its own GPUs.
    """
    parts = {"DP": 0, "PP": 0, "TP": 0}
    for tag in rank.split():
        name, number = tag.rstrip("0123456789"), tag.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ_")
        if name in parts and number:
            parts[name] = int(number)
    tp, pp = _positive(args.get("tp_size")), _positive(args.get("pp_size"))
    attention_dp = bool(args.get("enable_dp_attention")) or _positive(args.get("attn_dp_size")) > 1
    replica = 0 if attention_dp else parts["DP"] * tp * pp
    position = replica + parts["PP"] * tp + parts["TP"]
    base = args.get("base_gpu_id") or 0
    return int(base) + position * _positive(args.get("gpu_id_step"))


def make_bars(inputs: BarInputs) -> tuple[GpuBar, ...]:
    """One bar per GPU of the sample, or, when only a log is known, one per rank."""
    sample = inputs.sample
    if sample is None or not sample.gpus:
        bars = tuple(_bar_of_log(index, rank, inputs) for index, rank in enumerate(inputs.ranks))
    elif sample.source == "host":
        bars = tuple(_bar(reading, inputs.ranks, inputs) for reading in sample.gpus)
    else:
        owners = _owners(sample.gpus, inputs)
        bars = tuple(_bar(reading, owners.get(reading.uuid, ()), inputs) for reading in sample.gpus)
    return _mark_tight(bars)


def _owners(gpus: Sequence[GpuReading], inputs: BarInputs) -> dict[str, tuple[RankMemory, ...]]:
    uuids = inputs.visible_uuids if inputs.visible_uuids is not None else tuple(gpu.uuid for gpu in gpus)
    owners: dict[str, tuple[RankMemory, ...]] = {}
    for rank in inputs.ranks:
        position = gpu_index(rank.rank, inputs.args)
        if position < len(uuids):
            owners[uuids[position]] = (*owners.get(uuids[position], ()), rank)
    return owners


def _bar_of_log(index: int, rank: RankMemory, inputs: BarInputs) -> GpuBar:
    """Without a driver the bar is as long as what was free before the weights: all that the log can vouch for."""
    segments = _named(rank)
    segments["other"] = _logged(rank.other, "the log's free memory, less what it names")
    segments["free"] = _logged(rank.free, "the last free memory in the log")
    return GpuBar(
        index=index,
        name="from the log",
        kind="log",
        rank=rank.rank,
        total_gib=rank.free_before,
        segments={name: segments.get(name, UNKNOWN) for name in SEGMENTS},
        kv_used_gib=_kv_used(segments["kv"], inputs),
        budget_gib=_budget((rank,), inputs),
        note="; ".join(rank.notes),
    )


def _bar(reading: GpuReading, ranks: tuple[RankMemory, ...], inputs: BarInputs) -> GpuBar:
    segments, notes = _segments(reading, ranks if inputs.alive else (), inputs)
    notes += [note for rank in ranks for note in rank.notes]
    if reading.processes_note:
        notes.append(reading.processes_note)
    return GpuBar(
        index=reading.index,
        name=reading.name,
        uuid=reading.uuid,
        kind=reading.kind,
        rank=" ".join(rank.rank for rank in ranks) or None,
        total_gib=reading.total_gib,
        segments=segments,
        kv_used_gib=_kv_used(segments["kv"], inputs),
        budget_gib=_budget(ranks, inputs) if inputs.alive else None,
        util_percent=reading.util_percent,
        power_w=reading.power_w,
        temperature_c=reading.temperature_c,
        foreign=_foreign_words(reading, inputs.pids),
        note="; ".join(dict.fromkeys(notes)),
        error=reading.error,
    )


def _segments(
    reading: GpuReading, ranks: tuple[RankMemory, ...], inputs: BarInputs
) -> tuple[dict[str, Amount], list[str]]:
    """Named by the log, foreign and free by the driver; other is the rest, so that the bar is always full."""
    if reading.total_gib is None or reading.free_gib is None:
        return dict.fromkeys(SEGMENTS, UNKNOWN), []
    segments = _sum_named(ranks)
    foreign = _foreign(reading, inputs.pids)
    taken = reading.total_gib - reading.free_gib - (foreign.gib or 0.0)
    growing = _growth(ranks, reading, inputs)
    if growing is not None:
        name, gib = growing
        segments[name] = Amount(
            gib=(segments[name].gib or 0.0) + gib,
            source=Source.ESTIMATED,
            why=f"the driver's free memory fell by {gib:.2f} GiB in this phase; the log has not named it yet",
        )
    named = sum(segments[name].gib or 0.0 for name in ("base", "draft", "graphs", "kv"))
    notes: list[str] = []
    free = Amount(gib=reading.free_gib, source=Source.MEASURED, why="free memory by the driver")
    rest = taken - named
    if rest < 0:
        if -rest > max(NOISE_GIB, 0.03 * named):
            notes.append(f"the log names {-rest:.2f} GiB more than is in use: reserved, not yet touched")
        free = replace(free, gib=max(0.0, reading.free_gib + rest), why="free, less what the log says is reserved")
    segments["other"] = Amount(
        gib=max(0.0, rest),
        source=Source.MEASURED,
        why="in use by the driver's count, less every named segment: context, NCCL, request table, workspaces",
    )
    segments["foreign"] = foreign
    segments["free"] = free
    return {name: segments[name] for name in SEGMENTS}, notes


def _growth(ranks: tuple[RankMemory, ...], reading: GpuReading, inputs: BarInputs) -> tuple[str, float] | None:
    if len(ranks) != 1 or reading.free_gib is None:
        return None
    rank = ranks[0]
    segment = GROWING.get(inputs.phases.get(rank.rank, Phase.NONE))
    since = rank.free if rank.free is not None else rank.free_before
    if segment is None or since is None:
        return None
    gib = since - reading.free_gib
    return (segment, gib) if gib > NOISE_GIB else None


def _foreign(reading: GpuReading, pids: frozenset[int]) -> Amount:
    others = [process for process in reading.processes if process.pid not in pids]
    known = [process.used_gib for process in others if process.used_gib is not None]
    if reading.processes_note or len(known) < len(others):
        why = reading.processes_note or "the driver does not say how much other processes hold"
        return Amount(gib=sum(known) if known else None, source=Source.UNKNOWN, why=why)
    return Amount(gib=sum(known), source=Source.MEASURED, why="other processes on this GPU, by the driver")


def _foreign_words(reading: GpuReading, pids: frozenset[int]) -> tuple[str, ...]:
    if reading.kind == "host":
        return ()
    return tuple(
        f"{process.name or 'process'} {process.pid}: "
        + ("– GiB" if process.used_gib is None else f"{process.used_gib:.1f} GiB")
        for process in reading.processes
        if process.pid not in pids
    )


def _named(rank: RankMemory) -> dict[str, Amount]:
    return {
        "base": _logged(rank.base, "Load weight end, mem usage, target"),
        "draft": _logged(
            rank.draft, "Load weight end, mem usage, draft (before tensors shared with the target are freed)"
        ),
        "graphs": _logged(_add(rank.graphs_base, rank.graphs_draft), "Capture … end, mem usage, target and draft"),
        "kv": _logged(_add(rank.kv_base, rank.kv_draft, rank.state), "KV Cache is allocated, target, draft and state"),
    }


def _sum_named(ranks: tuple[RankMemory, ...]) -> dict[str, Amount]:
    if not ranks:
        nothing = Amount(gib=0.0, source=Source.MEASURED, why="no rank of the server is on this GPU")
        return dict.fromkeys(("base", "draft", "graphs", "kv"), nothing)
    parts = [_named(rank) for rank in ranks]
    return {
        name: replace(parts[0][name], gib=_add(*(part[name].gib for part in parts)))
        if len(parts) > 1
        else parts[0][name]
        for name in parts[0]
    }


def _logged(gib: float | None, why: str) -> Amount:
    if gib is None:
        return Amount(why="not logged")
    # A negative usage is memory that was released while it was measured: it is not a segment of the bar.
    return Amount(gib=max(0.0, gib), source=Source.MEASURED, why=f"the server's log: {why}")


def _kv_used(kv: Amount, inputs: BarInputs) -> float | None:
    if kv.gib is None or inputs.token_usage is None:
        return None
    return kv.gib * min(1.0, max(0.0, inputs.token_usage))


def _budget(ranks: tuple[RankMemory, ...], inputs: BarInputs) -> float | None:
    """P·f, from the left edge of the bar; P is the smallest of all ranks."""
    before = [rank.free_before for rank in inputs.ranks if rank.free_before is not None]
    if inputs.fraction is None or not before or not ranks:
        return None
    outside = (ranks[0].draft or 0.0) if inputs.draft_outside_fraction else 0.0
    return min(before) * inputs.fraction + outside


def _mark_tight(bars: tuple[GpuBar, ...]) -> tuple[GpuBar, ...]:
    free = [(gib, i) for i, bar in enumerate(bars) if (gib := bar.segments["free"].gib) is not None]
    if len(free) < 2:
        return bars
    if all(abs(a[0] - b[0]) < 0.005 for a, b in pairwise(free)):
        return bars
    tightest = min(free)[1]
    return tuple(replace(bar, tight=i == tightest) for i, bar in enumerate(bars))


def _add(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _positive(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1
