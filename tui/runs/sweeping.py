"""A sweep from beginning to end: plan, launch, wait, bench, record, stop, go on, whatever happens to one case."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tui.errors import SpecdeckError
from tui.runs.benches import BenchResult, Workload
from tui.runs.sweepplan import Case
from tui.runs.sweepstate import DONE, FAILED, PENDING, RUNNING, SKIPPED, Sweep, SweepStore, Trial
from tui.runs.sweeptime import usual_s

_SAVE_S = 1.0  # how often the step of a case is written down while it goes on


class SweepCancelled(KeyboardInterrupt):
    """Somebody asked the sweep to stop, from another process."""


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

    def plan(self, case: Case, patient: bool) -> Plan:
        """What the forecast says; `patient`: a refusal may wait for memory that is still being given back."""
        ...

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

    def leftovers(self, case: Case, since: float) -> list[str]:
        """Runs that an interrupted sweep left alive: launched for `case`, at or just after that time."""
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

    KeyboardInterrupt (SweepCancelled, when `store.cancel` asked for it) stops the server of the case that runs and
    leaves that case to be done again.
    """
    store.forget_cancel(sweep.name)
    keeper = _Keeper(sweep, store, tell, clock)
    try:
        _clear_up(keeper, machine)
        _plan_all(keeper, machine)
        for index in range(len(keeper.sweep.trials)):
            trial = keeper.sweep.trials[index]
            if trial.status not in (PENDING, RUNNING):
                continue
            keeper.heed()
            if keeper.out_of_time():
                left = keeper.sweep.left
                keeper.say(f"The budget is used up; {left} case{'s are' if left != 1 else ' is'} left for --resume.")
                return keeper.sweep
            _case(keeper, index, trial, machine, workloads)
        keeper.put(replace(keeper.sweep, finished=True))
    finally:
        keeper.rest()
        store.forget_cancel(sweep.name)
    return keeper.sweep


class _Keeper:
    """The sweep and its file; counts the time that is spent."""

    def __init__(self, sweep: Sweep, store: SweepStore, tell: Tell, clock: Callable[[], float]) -> None:
        self.sweep, self._store, self._tell, self._clock = sweep, store, tell, clock
        self._since = self._saved = clock()

    def put(self, sweep: Sweep) -> None:
        now = self._clock()
        self.sweep = replace(sweep, spent_s=sweep.spent_s + now - self._since)
        self._since = self._saved = now
        self._store.save(self.sweep)

    def set(self, index: int, trial: Trial) -> None:
        self.put(replace(self.sweep.with_trial(index, trial), doing=""))

    def say(self, text: str) -> None:
        self._tell(self.sweep, text)

    def step(self, title: str, text: str) -> None:
        """What the case that runs does now; the place at which a cancellation is heard."""
        self.heed()
        phase = text.partition(",")[0]
        changed = phase != self.sweep.doing.partition(",")[0]
        self.sweep = replace(self.sweep, doing=text)
        if changed or self._clock() - self._saved >= _SAVE_S:
            self.put(self.sweep)
        self.say(f"{title}: {text}")

    def heed(self) -> None:
        if self._store.cancel_asked(self.sweep.name):
            raise SweepCancelled

    def rest(self) -> None:
        """Nothing is being done any more."""
        if self.sweep.doing:
            self.put(replace(self.sweep, doing=""))

    def now(self) -> float:
        return self._clock()

    def out_of_time(self) -> bool:
        """Whether another case of the usual length would pass the budget."""
        budget = self.sweep.budget_s
        if budget is None:
            return False
        spent = self.sweep.spent_s + self._clock() - self._since
        return spent + (usual_s(self.sweep) or 0.0) > budget


def _clear_up(keeper: _Keeper, machine: Machine) -> None:
    """What an interrupted sweep left running is ended first: it would hold the GPUs and the port."""
    for index, trial in enumerate(keeper.sweep.trials):
        if trial.status != RUNNING:
            continue
        names = [trial.run] if trial.run else machine.leftovers(trial.case, trial.since or time.time())
        for name in names:
            keeper.say(f"Ending what is left of {name}, which was interrupted.")
            machine.stop(name)
        keeper.set(index, Trial(case=trial.case))


def _plan_all(keeper: _Keeper, machine: Machine) -> None:
    """What is to be expected of each case; its turn plans it again, with what was learned until then."""
    sweep, refused = keeper.sweep, 0
    for index, trial in enumerate(sweep.trials):
        if trial.status != PENDING:
            continue
        keeper.heed()
        try:
            plan = machine.plan(trial.case, patient=False)
        except SpecdeckError:
            continue  # its turn will tell
        sweep = sweep.with_trial(index, replace(trial, plan=plan.text, fits=plan.fits))
        refused += plan.fits is False
    keeper.put(sweep)
    if refused:
        keeper.say(f"Planned: {refused} of {sweep.left} cannot fit and will be skipped.")


def _case(keeper: _Keeper, index: int, trial: Trial, machine: Machine, workloads: Sequence[Workload]) -> None:
    case, title = trial.case, f"{index + 1} of {len(keeper.sweep.trials)}: {trial.case.title}"
    try:
        plan = machine.plan(case, patient=True)
    except SpecdeckError as error:
        keeper.set(index, replace(trial, status=FAILED, why=str(error)))
        keeper.say(f"{title}: failed, {error}")
        return
    trial = replace(trial, plan=plan.text, fits=plan.fits)
    if plan.fits is False:
        keeper.say(f"{title}: skipped, {plan.text}")
        keeper.set(index, replace(trial, status=SKIPPED, why=plan.text))
        return
    keeper.say(f"{title}: launching")
    began, since = keeper.now(), time.time()
    keeper.set(index, replace(trial, status=RUNNING, run=None, since=since))
    run: str | None = None
    stopped, found = False, trial
    try:
        run = machine.launch(case)
        trial = found = replace(trial, run=run)
        keeper.set(index, replace(trial, status=RUNNING, since=since))
        found = _measured(keeper, trial, run, machine, workloads, title)
        keeper.step(title, "stopping")
        machine.stop(run)
        stopped = True
    except SpecdeckError as error:  # what was measured stays, and the complaint with it
        found = replace(found, status=DONE if found.status == DONE else FAILED, why=found.why or str(error))
    finally:
        if run is not None and not stopped:
            _stop_quietly(keeper, machine, run)
    keeper.set(index, replace(found, run=run, seconds=keeper.now() - began))
    if found.status == FAILED:
        keeper.say(f"{title}: failed, {found.why}")


def _measured(
    keeper: _Keeper, trial: Trial, run: str, machine: Machine, workloads: Sequence[Workload], title: str
) -> Trial:
    outcome = machine.wait(run, lambda text: keeper.step(title, text))
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
        results = machine.bench(run, workloads, lambda text: keeper.step(title, text))
    except SpecdeckError as error:
        return replace(trial, status=FAILED, why=f"ready, but the bench failed: {error}")
    return replace(trial, status=DONE, results=results)


def _stop_quietly(keeper: _Keeper, machine: Machine, run: str) -> None:
    try:
        machine.stop(run)
    except SpecdeckError as error:
        keeper.say(f"{run}: {error}")
