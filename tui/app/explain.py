"""Where a segment of a bar comes from: its size, its source, the formula with the numbers filled in, what moves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.app.bars import NOTHING_GIB, free_gib, kv_fraction, segment_gib
from tui.app.text import DASH, count, escape, fit, gib, pad, percent, value, width_of, wrap
from tui.app.widgets.canvas import Line
from tui.sglang import budget
from tui.sglang.versions import parse_version
from tui.snapshot import SEGMENTS, Amount, GpuBar, RankMemory, Snapshot, Source

LABEL = 13  # columns of the words before an explanation's sentences
SAME_GIB = 0.05  # the log's own rounding, of several parts
# What changes a segment at the next start, the strongest first. Flags that are not in force are left out.
MOVES: Mapping[str, tuple[str, ...]] = {
    "base": ("model-path", "quantization", "dtype", "tp-size", "pp-size", "cpu-offload-gb"),
    "draft": ("speculative-algorithm", "speculative-draft-model-path", "speculative-draft-model-quantization"),
    "graphs": ("cuda-graph-max-bs", "cuda-graph-max-bs-decode", "disable-cuda-graph", "speculative-num-draft-tokens"),
    "kv": ("mem-fraction-static", "max-total-tokens", "kv-cache-dtype", "tp-size", "speculative-algorithm"),
    "other": ("max-running-requests", "context-length", "chunked-prefill-size", "attention-backend", "tp-size"),
    "free": ("mem-fraction-static", "cuda-graph-max-bs", "chunked-prefill-size", "speculative-algorithm"),
}
SPENDS = {
    "foreign": "No flag of this server: ending the processes that are named below does.",
    "free": "It pays for the activations of large prefills while the server serves: keep some.",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """One number: its name (a segment's is its colour too), its size and source in words, and labelled sentences."""

    name: str
    size: str
    source: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """The memory equation of a server, GiB: see `tui.sglang.budget`."""

    before: float  # P
    available: float  # A
    fraction: float  # f

    @property
    def slack(self) -> float:
        return budget.slack_gib(self.before, self.fraction)

    @property
    def rest(self) -> float:
        return budget.rest_gib(self.before, self.available, self.fraction)

    @property
    def floor(self) -> float:
        return budget.floor_fraction(self.before, self.available)

    def words(self) -> str:
        """With its numbers."""
        return (
            f"A - P x (1 - f) = {self.available:.2f} - {self.before:.2f} x (1 - {self.fraction:.4g}) = {self.rest:.2f} "
            "GiB, where P was free before the weights, A is free when the pool is sized (each the least of all ranks), "
            "and f is mem-fraction-static"
        )


def equation(snapshot: Snapshot) -> Equation | None:
    """The equation with what the log said; None when a part of it, or the version's rule, is not known."""
    version = parse_version(snapshot.sglang_version or "")
    if version is None or snapshot.fraction is None:
        return None
    algorithm = in_force(snapshot).get("speculative-algorithm")
    found: list[tuple[float, float]] = []
    for rank in snapshot.ranks:
        if rank.free_before is None or rank.base is None:
            return None
        try:
            left = budget.available_after_weights_gib(
                version, rank.free_before, rank.base, rank.draft, None if algorithm is None else str(algorithm)
            )
        except ValueError:
            return None
        found.append((rank.free_before, left))
    if not found or min(before for before, _ in found) <= 0:
        return None
    return Equation(min(before for before, _ in found), min(left for _, left in found), snapshot.fraction)


def in_force(snapshot: Snapshot) -> dict[str, object]:
    """Flags by name: what the operator set, else what SGLang resolved."""
    resolved = {name.replace("_", "-"): setting for name, setting in snapshot.args.items()}
    return {**resolved, **{knob.name: knob.value for knob in snapshot.knobs if knob.value is not None}}


def moves(name: str, snapshot: Snapshot) -> str:
    """The flags that change a segment, with their values of now."""
    flags = in_force(snapshot)
    known = [f"{flag} ({value(flags[flag])})" for flag in MOVES.get(name, ()) if flags.get(flag) not in (None, False)]
    always = [flag for flag in MOVES.get(name, ())[:1] if flags.get(flag) in (None, False)]
    return ", ".join([*always, *known])


def bar_entries(bar: GpuBar, snapshot: Snapshot, how: str = "") -> list[Explained]:
    """Every segment of a GPU as it is now, the total and the end of the budget.

    `how`: the way in which SGLang chose the fraction, where it did.
    """
    rank = next((each for each in snapshot.ranks if each.rank == bar.rank), None)
    entries = [_entry(name, bar.segments.get(name), _formula(name, bar, rank, snapshot), snapshot) for name in SEGMENTS]
    entries.append(Explained("total", gib(bar.total_gib), "", (("from", "the size of the GPU, by the driver"),)))
    if bar.budget_gib is not None:
        entries.append(Explained("budget", gib(bar.budget_gib), "computed", _budget_rows(bar, snapshot, how)))
    return entries


def plan_entries(bar: GpuBar) -> list[Explained]:
    """Every segment of a GPU as the plan has it."""
    found = []
    for name in SEGMENTS:
        amount = bar.segments.get(name)
        rows: list[tuple[str, str]] = [("from", amount.why)] if amount and amount.why else []
        if amount is not None and amount.low_gib is not None and amount.high_gib is not None:
            rows.append(("between", f"{amount.low_gib:.2f} and {amount.high_gib:.2f} GiB"))
        found.append(Explained(name, gib(amount.gib if amount else None), _source(amount), tuple(rows)))
    return found


def _entry(name: str, amount: Amount | None, formula: str, snapshot: Snapshot) -> Explained:
    rows = [("from", amount.why)] if amount and amount.why else []
    if formula:
        rows.append(("is", formula))
    if changed := moves(name, snapshot):
        rows.append(("moves with", changed))
    if name in SPENDS:
        rows.append(("note", SPENDS[name]))
    return Explained(name, gib(amount.gib if amount else None), _source(amount), tuple(rows))


def _source(amount: Amount | None) -> str:
    return (amount.source if amount else Source.UNKNOWN).value


def _formula(name: str, bar: GpuBar, rank: RankMemory | None, snapshot: Snapshot) -> str:
    amount = bar.segments.get(name)
    if amount is None or amount.gib is None or amount.source is Source.ESTIMATED:
        return ""
    match name:
        case "base" | "draft" if rank is not None and amount.gib and len(snapshot.ranks) > 1:
            parts = [getattr(each, name) for each in snapshot.ranks]
            if None in parts:
                return ""
            return f"this rank's share of {sum(parts):.2f} GiB on all {len(parts)} ranks"
        case "graphs" if rank is not None and rank.graphs_base is not None:
            draft = "" if rank.graphs_draft is None else f" + draft {rank.graphs_draft:.2f}"
            return f"target {rank.graphs_base:.2f}{draft}, for batches of up to {_largest_graph(snapshot)} requests"
        case "kv" if rank is not None and rank.kv_base is not None:
            return _kv_formula(bar, rank, snapshot)
        case "other" | "free" if bar.total_gib is not None and free_gib(bar) is not None:
            return _rest_formula(name, bar)
    return ""


def _largest_graph(snapshot: Snapshot) -> str:
    flags = in_force(snapshot)
    return value(flags.get("cuda-graph-max-bs-decode", flags.get("cuda-graph-max-bs")) or DASH)


def _kv_formula(bar: GpuBar, rank: RankMemory, snapshot: Snapshot) -> str:
    parts = [f"target {gib(rank.kv_base)}"]
    parts += [f"draft {rank.kv_draft:.2f}"] if rank.kv_draft else []
    parts += [f"recurrent state {rank.state:.2f}"] if rank.state else []
    words = " + ".join(parts) if len(parts) > 1 else parts[0]
    if (found := equation(snapshot)) is not None and rank.kv_base is not None:
        words += f". The pool: {found.words()}"
        if abs(found.rest - rank.kv_base) > max(SAME_GIB, 0.03 * rank.kv_base):
            words += ". SGLang allocated another amount: a token cap, whole pages or a reserve came in between"
    if rank.kv_base and snapshot.kv_tokens:
        cell = rank.kv_base * 2**20 / snapshot.kv_tokens
        words += f". It holds {count(snapshot.kv_tokens)} tokens of {cell:.1f} KiB"
    if (used := kv_fraction(bar)) is not None:
        words += f"; {percent(used)} of it, {bar.kv_used_gib:.2f} GiB, hold tokens now"
    return words + "."


def _rest_formula(name: str, bar: GpuBar) -> str:
    others = [part for part in SEGMENTS if part != name and (segment_gib(bar, part) or 0.0) >= NOTHING_GIB]
    terms = "".join(f" - {segment_gib(bar, part):.2f} {part}" for part in others)
    return f"{bar.total_gib:.2f} total{terms} = {segment_gib(bar, name):.2f} GiB"


def _budget_rows(bar: GpuBar, snapshot: Snapshot, how: str) -> tuple[tuple[str, str], ...]:
    before = [rank.free_before for rank in snapshot.ranks if rank.free_before is not None]
    rows = [("from", "the tick on the bar: weights and KV cache stay left of it")]
    if before and snapshot.fraction is not None and bar.budget_gib is not None:
        static = min(before) * snapshot.fraction
        draft = bar.budget_gib - static
        outside = f" + {draft:.2f} draft, which this SGLang keeps outside of it" if draft > SAME_GIB else ""
        rows.append(("is", f"P x f = {min(before):.2f} x {snapshot.fraction:.4g} = {static:.2f} GiB{outside}"))
    if how:
        rows.append(("f is", f"SGLang's own choice, in MiB: {how}"))
    rows.append(("moves with", "mem-fraction-static"))
    return tuple(rows)


def entry_lines(entries: Sequence[Explained], width: int, unit: str = "GiB") -> list[Line]:
    """Numbers with their explanations below, each whole; in a column when all have the same unit."""
    lines: list[Line] = []
    names = [fit(escape(entry.name), width // 2) for entry in entries]
    name_room = max(map(width_of, names), default=0) + 1
    size_room = max((len(entry.size) for entry in entries), default=0)
    for name, entry in zip(names, entries, strict=True):
        style = entry.name if entry.name in SEGMENTS else "strong"
        size = pad(entry.size, size_room, right=True) + f" {unit}" if unit else entry.size
        sizes = wrap(escape(size), max(8, width - name_room - 5 - len(entry.source))) if not unit else [size]
        for i, part in enumerate(sizes or [""]):
            source = f"  {entry.source}" if i == 0 else ""
            lines.append([(f"  {pad(name if i == 0 else '', name_room)} ", style), (part, "strong"), (source, "quiet")])
        for label, words in entry.rows:
            for i, part in enumerate(wrap(escape(words), max(20, width - LABEL - 4))):
                lines.append([(f"    {pad(label if i == 0 else '', LABEL - 2)}", "quiet"), (part, "plain")])
    return lines
