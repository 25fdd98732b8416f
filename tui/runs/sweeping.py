"""A sweep from beginning to end: plan, launch, wait, bench, record, stop, go on, whatever happens to one case."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tui.errors import SpecdeckError
from tui.runs.benches import BenchResult, Workload
from tui.runs.sweepplan import Case
from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, SKIPPED, Sweep, SweepStore, Trial


@dataclass(frozen=True, slots=True)
class Plan:
    """What the forecast says. `fits` False: it cannot start; None: it cannot be told."""

    fits: bool | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a launch ended up. `verdict` and `why`: the doctor's, when it is not ready."""

    ready: bool
    verdict: str | None = None
    why: str = ""
    kv_tokens: int | None = None
    free_gib: float | None = None
    ready_s: float | None = None
    algorithm: str | None = None
    fraction: float | None = None


class Machine(Protocol):
    """Where a sweep runs. Methods raise SpecdeckError when a case cannot go on."""

    def plan(self, case: Case) -> Plan: ...

    def launch(self, case: Case) -> str:
        """Start it; the name of its run."""
        ...

    def wait(self, run: str, tick: Callable[[str], None]) -> Outcome:
        """Until it is ready, has failed, or took too long."""
        ...

    def bench(self, run: str, workloads: Sequence[Workload], tick: Callable[[str], None]) -> tuple[BenchResult, ...]:
        """Drive it."""
        ...

    def stop(self, run: str) -> None:
        """End it and wait until nothing is left."""
        ...

    def leftovers(self, since: float) -> list[str]:
        """Runs that an interrupted sweep left alive, launched after that time."""
        ...


Tell = Callable[[Sweep, str], None]


def run_sweep(
    sweep: Sweep,
    store: SweepStore,
    machine: Machine,
    workloads: Sequence[Workload],
    tell: Tell,
    clock: Callable[[], float] = time.monotonic,
) -> Sweep:
    """Every case that is still to come; the state is saved before and after each step. Returns the finished sweep.

    KeyboardInterrupt stops the server of the case that runs and leaves that case to be done again.
    """
    keeper = _Keeper(sweep, store, tell, clock)
    _clear_up(keeper, machine)
    for index, trial in enumerate(keeper.sweep.trials):
        if trial.status not in (PENDING, RUNNING):
            continue
        if keeper.out_of_time():
            tell(keeper.sweep, f"The budget is used up; {keeper.sweep.left} cases are left for --resume.")
            return keeper.sweep
        _case(keeper, index, trial, machine, workloads)
    keeper.put(replace(keeper.sweep, finished=True))
    return keeper.sweep


class _Keeper:
    """The sweep and its file; counts the time that is spent."""

    def __init__(self, sweep: Sweep, store: SweepStore, tell: Tell, clock: Callable[[], float]) -> None:
        self.sweep, self._store, self._tell, self._clock = sweep, store, tell, clock
        self._since = clock()

    def put(self, sweep: Sweep) -> None:
        now = self._clock()
        self.sweep = replace(sweep, spent_s=sweep.spent_s + now - self._since)
        self._since = now
        self._store.save(self.sweep)

    def set(self, index: int, trial: Trial) -> None:
        self.put(self.sweep.with_trial(index, trial))

    def say(self, text: str) -> None:
        self._tell(self.sweep, text)

    def now(self) -> float:
        return self._clock()

    def out_of_time(self) -> bool:
        """Whether another case of the usual length would pass the budget."""
        budget = self.sweep.budget_s
        if budget is None:
            return False
        spent = self.sweep.spent_s + self._clock() - self._since
        return spent + (usual_s(self.sweep) or 0.0) > budget


def usual_s(sweep: Sweep) -> float | None:
    """Seconds of a case so far, on average over those that were launched."""
    lengths = [trial.seconds for trial in sweep.trials if trial.seconds > 0 and trial.status in (DONE, FAILED)]
    return sum(lengths) / len(lengths) if lengths else None


def left_s(sweep: Sweep) -> float | None:
    """Seconds that the rest will take; None before the first case has ended."""
    usual = usual_s(sweep)
    return None if usual is None else usual * sweep.left


def _clear_up(keeper: _Keeper, machine: Machine) -> None:
    """What an interrupted sweep left running is ended first: it would hold the GPUs and the port."""
    for index, trial in enumerate(keeper.sweep.trials):
        if trial.status != RUNNING:
            continue
        names = [trial.run] if trial.run else []
        for name in dict.fromkeys([*names, *machine.leftovers(trial.since or time.time())]):
            keeper.say(f"Stopping {name}, which an interrupted sweep left running.")
            machine.stop(name)
        keeper.set(index, Trial(case=trial.case))


def _case(keeper: _Keeper, index: int, trial: Trial, machine: Machine, workloads: Sequence[Workload]) -> None:
    case, number = trial.case, f"{index + 1} of {len(keeper.sweep.trials)}"
    plan = machine.plan(case)
    if plan.fits is False:
        keeper.say(f"{number}: {case.title}: skipped, {plan.text}")
        keeper.set(index, replace(trial, status=SKIPPED, why=plan.text))
        return
    keeper.say(f"{number}: {case.title}: launching")
    began, since = keeper.now(), time.time()
    keeper.set(index, replace(trial, status=RUNNING, run=None, since=since))
    run: str | None = None
    stopped = False
    try:
        run = machine.launch(case)
        trial = replace(trial, run=run)
        keeper.set(index, replace(trial, status=RUNNING, since=since))
        found = _measured(keeper, trial, run, machine, workloads, number)
        machine.stop(run)
        stopped = True
    except SpecdeckError as error:
        found = replace(trial, status=FAILED, why=str(error))
    finally:
        if run is not None and not stopped:
            _stop_quietly(keeper, machine, run)
    keeper.set(index, replace(found, run=run, seconds=keeper.now() - began))
    if found.status == FAILED:
        keeper.say(f"{number}: {case.title}: failed, {found.why}")


def _measured(
    keeper: _Keeper, trial: Trial, run: str, machine: Machine, workloads: Sequence[Workload], number: str
) -> Trial:
    outcome = machine.wait(run, lambda text: keeper.say(f"{number}: {trial.case.title}: {text}"))
    trial = replace(
        trial,
        kv_tokens=outcome.kv_tokens,
        free_gib=outcome.free_gib,
        ready_s=outcome.ready_s,
        algorithm=outcome.algorithm,
        fraction=outcome.fraction,
    )
    if not outcome.ready:
        return replace(trial, status=FAILED, verdict=outcome.verdict, why=outcome.why)
    try:
        results = machine.bench(run, workloads, lambda text: keeper.say(f"{number}: {trial.case.title}: {text}"))
    except SpecdeckError as error:
        return replace(trial, status=FAILED, why=f"ready, but the bench failed: {error}")
    return replace(trial, status=DONE, results=results)


def _stop_quietly(keeper: _Keeper, machine: Machine, run: str) -> None:
    try:
        machine.stop(run)
    except SpecdeckError as error:
        keeper.say(f"{run}: {error}")
