"""A sweep as text: the ranked table, what it says about speculation, and how long it will take. Pure."""

from collections.abc import Sequence

from tui.runs.runtext import plain
from tui.runs.sweepplan import Case
from tui.runs.sweepstate import DONE, Sweep, Trial, ranked
from tui.sglang.economics import BatchSpeed, economies, kv_cost, turns_over
from tui.wording import count

_NONE = object()
_CALLED = {
    "mem-fraction-static": "mem-fraction",
    "speculative-algorithm": "algorithm",
    "speculative-num-steps": "steps",
    "speculative-eagle-topk": "topk",
    "speculative-num-draft-tokens": "draft",
    "speculative-draft-model-path": "draft-model",
}


def table_lines(sweep: Sweep) -> list[str]:
    """The fastest first, what failed or was skipped after it, with the reason; then whether speculation pays."""
    workloads = list(dict.fromkeys(result.workload for trial in sweep.trials for result in trial.results))
    common = common_knobs([trial.case for trial in sweep.trials])
    rows = [("", "case", "KV tokens", "free", *(f"{name} tok/s" for name in workloads), "accept", "")]
    order = ranked(sweep.trials)
    best = order[0].speed if order else None
    rows += [_row(place, trial, workloads, best, common) for place, trial in enumerate(order, 1)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    return [*lines, *speculation_lines(sweep.trials)]


def speculation_lines(trials: Sequence[Trial]) -> list[str]:
    """The fastest case without speculation against the fastest with it."""
    fast = [trial for trial in ranked(trials) if trial.status == DONE]
    plain_trial = next((trial for trial in fast if trial.algorithm is None), None)
    spec = next((trial for trial in fast if trial.algorithm is not None), None)
    if plain_trial is None or spec is None:
        return []
    found = economies(_speeds(plain_trial), _speeds(spec))
    common = common_knobs([trial.case for trial in trials])
    titles = [short_title(trial.case, common) for trial in (spec, plain_trial)]
    lines = ["", f"Does speculation pay? {titles[0]} against {titles[1]}:"]
    lines += [f"  {one.text}" for one in found]
    turn = turns_over(found)
    if turn is not None:
        lines.append(f"  It turns over at about batch {turn:.0f}.")
    cost = kv_cost(plain_trial.kv_tokens, spec.kv_tokens, plain_trial.fraction, spec.fraction)
    return [*lines, f"  {cost}"] if cost else lines


def common_knobs(cases: Sequence[Case]) -> set[str]:
    """Knobs that every case sets to the same value, as a port: they tell nothing apart."""
    if len(cases) < 2:
        return set()
    first = cases[0].knobs
    return {name for name, value in first.items() if all(case.knobs.get(name, _NONE) == value for case in cases)}


def short_title(case: Case, common: set[str]) -> str:
    """The case without what all have in common, the names of knobs cut to what an operator calls them."""
    knobs = {_CALLED.get(name, name): value for name, value in case.knobs.items() if name not in common}
    return Case(case.profile, knobs).title


def _speeds(trial: Trial) -> dict[int, BatchSpeed]:
    return {result.batch: speed for result in trial.results if (speed := result.speed) is not None}


def _row(place: int, trial: Trial, workloads: list[str], best: float | None, common: set[str]) -> tuple[str, ...]:
    by_name = {result.workload: result for result in trial.results}
    speeds = ["–" if (result := by_name.get(name)) is None else f"{result.typical_tok_s:.1f}" for name in workloads]
    last = _last(trial, best)
    return (
        str(place) if trial.speed is not None else "",
        plain(short_title(trial.case, common)),
        count(trial.kv_tokens),
        "–" if trial.free_gib is None else f"{trial.free_gib:.1f} GiB",
        *speeds,
        "–" if trial.accept_len is None else f"{trial.accept_len:.2f}",
        plain(last),
    )


def _last(trial: Trial, best: float | None) -> str:
    if trial.status != DONE:
        return f"{trial.status}: {trial.reason}" if trial.reason else trial.status
    if best and trial.speed and trial.speed < best:
        return f"{trial.speed / best - 1:+.0%}"
    return "best" if trial.speed else ""
