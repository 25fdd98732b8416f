"""Two or more runs side by side: what was changed, where the memory went, and whether it is faster. Pure, in words."""

from collections.abc import Sequence
from typing import Any

from tui.frozen import frozen
from tui.runs.listing import shown
from tui.runs.summary import Summary
from tui.sglang.economics import CONTEXT_RATIO, BatchSpeed, Economy, economies, kv_cost, turns_over
from tui.wording import count

_BARS = (
    ("base", ("base",)), ("draft", ("draft",)), ("graphs", ("graphs_base", "graphs_draft")),
    ("kv", ("kv_base", "kv_draft", "state")), ("other", ("other",)), ("free", ("free",)),
)  # fmt: skip
_LEAST_SAMPLES = 3
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # one for each run


@frozen
class SpeedComparison:
    """One batch size. `ratio`: the second by the first; None when they are not comparable. `text`: the sentence,
    which names the runs by their letters when there are more than two."""

    batch: int
    speeds: tuple[BatchSpeed | None, ...]
    ratio: float | None
    text: str


@frozen
class Comparison:
    """Runs against the first of them. `knobs`: those that differ, name -> a value for each run.

    `economy` is of the fastest run with speculation against the fastest without: `pair`, by their places.
    """

    runs: tuple[Summary, ...]
    knobs: dict[str, tuple[Any, ...]]
    memory: dict[str, tuple[float | None, ...]]
    speeds: tuple[SpeedComparison, ...]
    ready: str
    economy: tuple[Economy, ...] = ()
    pair: tuple[int, int] | None = None
    turns_over: float | None = None
    kv: str = ""


def compare(runs: Sequence[Summary]) -> Comparison:
    """Raises ValueError for fewer than two runs."""
    if len(runs) < 2:
        raise ValueError("two runs are needed for a comparison")
    first, *others = runs
    speeds = tuple(
        _speed(batch, first, other, f"{LETTERS[place]} against A: " if len(others) > 1 else "")
        for place, other in enumerate(others, 1)
        for batch in _batches(first, other)
    )
    plain, spec = _plain_and_spec(runs)
    found = economies(plain.by_batch, spec.by_batch) if plain and spec else ()
    return Comparison(
        runs=tuple(runs),
        knobs=_knobs(runs),
        memory={name: tuple(_segment(run, parts) for run in runs) for name, parts in _BARS},
        speeds=speeds,
        ready=_ready(runs),
        economy=found,
        pair=(runs.index(spec), runs.index(plain)) if plain and spec else None,
        turns_over=turns_over(found),
        kv=kv_cost(plain.kv_tokens, spec.kv_tokens, plain.fraction, spec.fraction) if plain and spec else "",
    )


def speed_text(batch: int, old: BatchSpeed | None, new: BatchSpeed | None) -> tuple[float | None, str]:
    """(ratio, sentence) of throughput at one batch size, the new one against the old one."""
    if old is None or new is None:
        which = "first" if old is None else "second"
        return None, f"Batch {batch}: the {which} run did not serve this batch size, so not comparable."
    if not _similar(old.context_tokens, new.context_tokens):
        return None, (
            f"Batch {batch}: not comparable, the load differed: requests of {new.context_tokens:.0f} against "
            f"{old.context_tokens:.0f} tokens."
        )
    ratio = new.tok_s / old.tok_s if old.tok_s > 0 else None
    change = "" if ratio is None else f" ({(ratio - 1) * 100:+.0f} %)"
    counts = f"{new.samples} samples each" if new.samples == old.samples else f"{new.samples} and {old.samples} samples"
    text = f"{new.tok_s:.4g} against {old.tok_s:.4g} tok/s at batch {batch}{change}, {counts}, {_spread(old, new)}"
    if min(old.samples, new.samples) < _LEAST_SAMPLES:
        text += "; too few samples to rely on"
    elif _overlap(old, new):
        text += "; within the spread"
    return ratio, text + "."


def text_lines(found: Comparison, width: int = 80, ascii_only: bool = False) -> list[str]:
    """The comparison as text."""
    lines = [f"{LETTERS[i]}  {run.run}  ({run.outcome})" for i, run in enumerate(found.runs)]
    lines += ["", "Knobs that differ:"] if found.knobs else ["", "No knob differs."]
    for name, values in found.knobs.items():
        lines.append(f"  {name:<34} " + "  ".join(f"{LETTERS[i]}: {shown(v)}" for i, v in enumerate(values)))
    lines += ["", "Memory of the tightest rank, GiB:"]
    lines += [f"  {LETTERS[i]} {bar}" for i, bar in enumerate(_bars(found, width - 4, ascii_only))]
    for name, sizes in found.memory.items():
        told = "  ".join(f"{LETTERS[i]}: {'–' if v is None else f'{v:.2f}'}" for i, v in enumerate(sizes))
        lines.append(f"  {name:<8} {told}")
    tokens = "  ".join(f"{LETTERS[i]}: {count(run.kv_tokens)}" for i, run in enumerate(found.runs))
    lines += [f"  KV tokens {tokens}", "", "Throughput:"]
    lines += [f"  {one.text}" for one in found.speeds] or ["  Nothing was measured in either run."]
    if economy := economy_lines(found):
        lines += ["", "Speculation:", *(f"  {line}" for line in economy)]
    return [*lines, "", found.ready]


def economy_lines(found: Comparison) -> list[str]:
    """Whether speculation pays, in sentences; none where all runs speculate, or none does."""
    if not found.economy:
        return []
    lines = [one.text for one in found.economy if one.speed_up is not None]
    if found.pair is not None and len(found.runs) > 2:
        lines.insert(0, "{} against {}, the fastest of each kind:".format(*(LETTERS[place] for place in found.pair)))
    if not lines:
        lines.append("No batch size was served both with and without it.")
    if found.turns_over is not None:
        lines.append(f"It turns over at about batch {found.turns_over:.0f}.")
    return [*lines, found.kv] if found.kv else lines


def _speed(batch: int, first: Summary, other: Summary, label: str) -> SpeedComparison:
    old, new = first.speed(batch), other.speed(batch)
    ratio, text = speed_text(batch, old, new)
    return SpeedComparison(batch=batch, speeds=(old, new), ratio=ratio, text=label + text)


def _batches(one: Summary, other: Summary) -> list[int]:
    """Those that both served; when there is none, all, so that it is said that they are not comparable."""
    both = one.by_batch.keys() & other.by_batch.keys()
    return sorted(both or (one.by_batch.keys() | other.by_batch.keys()))


def _knobs(runs: Sequence[Summary]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for run in runs for name in run.knobs)
    values = {name: tuple(run.knobs.get(name) for run in runs) for name in names}
    return {name: row for name, row in values.items() if any(value != row[0] for value in row)}


def _plain_and_spec(runs: Sequence[Summary]) -> tuple[Summary | None, Summary | None]:
    """The fastest of each kind at the smallest batch size that all of them served; the first where nothing tells."""
    served = [set(run.by_batch) for run in runs if run.by_batch]
    common = set.intersection(*served) if served else set()
    batch = min(common, default=None)

    def worth(run: Summary) -> float:
        speed = None if batch is None else run.speed(batch)
        return speed.tok_s if speed is not None else 0.0

    plain = [run for run in runs if run.algorithm is None]
    spec = [run for run in runs if run.algorithm is not None]
    return max(plain, key=worth, default=None), max(spec, key=worth, default=None)


def _ready(runs: Sequence[Summary]) -> str:
    parts = []
    for run in runs:
        if run.ready_s is None:
            parts.append(f"{run.run} was never ready")
        else:
            longest = max(run.phases_s.items(), key=lambda item: item[1], default=None)
            most = f", {longest[1]:.0f} s of it {longest[0]}" if longest else ""
            parts.append(f"{run.run} was ready after {run.ready_s:.0f} s{most}")
    return "; ".join(parts) + "."


def _bars(found: Comparison, width: int, ascii_only: bool) -> list[str]:
    """One bar for each run, all to the same scale; a letter for each segment."""
    totals = [sum(sizes[i] or 0.0 for sizes in found.memory.values()) for i in range(len(found.runs))]
    most = max(totals, default=0.0)
    if most <= 0:
        return ["–" for _ in found.runs]
    marks = {"base": "B", "draft": "D", "graphs": "G", "kv": "K", "other": "o", "free": "." if ascii_only else "·"}
    bars = []
    for i in range(len(found.runs)):
        edge, bar = 0.0, ""
        for name, sizes in found.memory.items():
            edge += max(0.0, sizes[i] or 0.0)
            bar += marks[name] * (round(edge / most * width) - len(bar))
        bars.append(bar)
    return bars


def _segment(run: Summary, parts: tuple[str, ...]) -> float | None:
    known = [gib for part in parts if (gib := run.memory_gib.get(part)) is not None]
    return sum(known) if known else None


def _similar(one: float | None, other: float | None) -> bool:
    return not one or not other or max(one, other) / min(one, other) <= CONTEXT_RATIO


def _spread(old: BatchSpeed, new: BatchSpeed) -> str:
    return f"spread {_range(new)} against {_range(old)}"


def _range(speed: BatchSpeed) -> str:
    low, high = speed.low, speed.high
    return f"{speed.tok_s:.4g}" if low is None or high is None else f"{low:.4g}–{high:.4g}"


def _overlap(one: BatchSpeed, other: BatchSpeed) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low <= other.high and other.low <= one.high
