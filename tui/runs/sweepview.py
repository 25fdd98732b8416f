"""A sweep as the screen draws it: `tui.port.SweepView`. Pure."""

from tui.port import SweepRow, SweepView
from tui.runs.benches import WORKLOADS, BenchError, workloads
from tui.runs.runtext import plain
from tui.runs.sweepplan import Case, profile_name
from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, SKIPPED, Sweep, Trial, ranked
from tui.runs.sweeptext import common_knobs, short_title, speculation_lines
from tui.runs.sweeptime import elapsed_s, left_s


def view_of(sweep: Sweep, now: float, running: bool) -> SweepView:
    """`running`: some process runs it. `now`: Unix time."""
    order = ranked(sweep.trials)
    best = order[0] if order and order[0].speed is not None else None
    names = _workloads(sweep)
    titles = _Titles(sweep)
    places = {id(trial): place for place, trial in enumerate(order, 1) if trial.speed is not None}
    return SweepView(
        name=sweep.name,
        state="running" if running else "finished" if sweep.finished else "interrupted",
        rows=tuple(_row(sweep, trial, best, places.get(id(trial)), names, titles, running) for trial in sweep.trials),
        workloads=names,
        elapsed_s=elapsed_s(sweep, now if running else None),
        left_s=0.0 if sweep.finished else left_s(sweep, now if running else None),
        budget_s=sweep.budget_s,
        best=_best(sweep, best, titles),
        economy=tuple(plain(line.strip()) for line in speculation_lines(sweep.trials) if line),
        saved=sweep.saved,
        rehearsal=bool(sweep.asked.get("rehearsal")),
    )


class _Titles:
    """What tells one case from another: knobs and profile that all have in common are left out."""

    def __init__(self, sweep: Sweep) -> None:
        cases = [trial.case for trial in sweep.trials]
        self._common = common_knobs(cases)
        self._one_profile = len(cases) > 1 and len({case.profile for case in cases}) == 1

    def of(self, case: Case) -> str:
        title = short_title(case, self._common)
        if self._one_profile:
            title = title.removeprefix(f"{profile_name(case.profile)} ")
        return plain(title)


def _row(
    sweep: Sweep,
    trial: Trial,
    best: Trial | None,
    place: int | None,
    names: tuple[str, ...],
    titles: _Titles,
    running: bool,
) -> SweepRow:
    by_name = {result.workload: result.typical_tok_s for result in trial.results}
    speed, top = trial.speed, best.speed if best is not None else None
    return SweepRow(
        title=titles.of(trial.case),
        state=_state(trial, running),
        words=plain(_words(sweep, trial, running)),
        place=place,
        kv_tokens=trial.kv_tokens,
        free_gib=trial.free_gib,
        ready_s=trial.ready_s,
        speeds=tuple(by_name.get(name) for name in names),
        accept_len=trial.accept_len,
        share=speed / top if speed is not None and top else None,
        run=trial.run,
        seconds=trial.seconds or None,
        case=plain(trial.case.title),
    )


def _state(trial: Trial, running: bool) -> str:
    match trial.status:
        case status if status in (DONE, FAILED, SKIPPED):
            return status
        case status if status == RUNNING and running:
            return "running"
        case _:
            return "will be skipped" if trial.fits is False else "planned"


def _words(sweep: Sweep, trial: Trial, running: bool) -> str:
    if trial.status == RUNNING:
        return sweep.doing or "launching" if running else "interrupted; it will be done again"
    if trial.status == PENDING:
        return trial.plan
    return trial.reason


def _best(sweep: Sweep, best: Trial | None, titles: _Titles) -> str:
    """The fastest so far, and what it gained on the case that was measured first."""
    if best is None or best.speed is None:
        return ""
    first = next(trial for trial in sweep.trials if trial.speed is not None)
    words = f"{titles.of(best.case)}: {best.speed:.1f} tok/s at {best.results[0].workload}"
    if first is best or not first.speed:
        return words
    return f"{words}, {best.speed / first.speed - 1:+.0%} against {titles.of(first.case)}"


def _workloads(sweep: Sweep) -> tuple[str, ...]:
    measured = [result.workload for trial in sweep.trials for result in trial.results]
    try:
        asked = [load.name for load in workloads(str(sweep.asked.get("bench", "")))]
    except BenchError:
        asked = []
    return tuple(dict.fromkeys([*asked, *(name for name in measured if name in WORKLOADS or name not in asked)]))
