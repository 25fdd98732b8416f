"""A sweep's cases on a place: planned by the forecast, launched under the keeper, watched, benched, stopped."""

import time
from collections.abc import Callable, Sequence

from tui.commands.benching import Bench
from tui.commands.watchedrun import WatchedRun
from tui.errors import SpecdeckError
from tui.feed.place import Place
from tui.feed.planning import Planner
from tui.runs import summaries
from tui.runs.benches import BenchResult, Workload
from tui.runs.store import Run, RunStore
from tui.runs.sweeping import Outcome, Plan
from tui.runs.sweepplan import Case, SweepError
from tui.server import control, stopping
from tui.server.lock import ControlLock, Owner
from tui.server.profiles import Profile, find, set_knobs
from tui.snapshot import ENDED, Phase, Snapshot, State

_GRACE_S = 30.0
_TOLERANCE_GIB = 0.5  # other programs on the GPU; a server's own memory is many times this
_RISE_S = 1.5  # a judgement: a driver gives back the memory of a dead process over seconds
_RISES = 10
_LAUNCH_S = 30.0  # between a launch and the note of its run lie tenths of a second


class PlaceMachine:
    """`tui.runs.sweeping.Machine` for a place. `say` gets what the operator should read."""

    def __init__(
        self, place: Place, store: RunStore, engine: str, timeout_s: float, say: Callable[[str], None]
    ) -> None:
        self._place, self._store = place, store
        self._engine, self._timeout_s, self._say = engine, timeout_s, say
        self._planner = Planner(place)
        self._watched: WatchedRun | None = None
        self._lock: ControlLock | None = None
        self._free_gib: dict[str, float] = {}
        self._looked = False

    def profile(self, case: Case) -> Profile:
        """The profile of a case as it is launched here. Raises ProfileError."""
        found = find(case.profile)
        return self._place.prepare(set_knobs(found, case.knobs) if case.knobs else found)

    def plan(self, case: Case, patient: bool) -> Plan:
        profile = self.profile(case)
        plan = self._plan(profile)
        if plan.fits is False and profile.knobs.get("device") != "cpu" and (patient or not self._looked):
            self._looked = True  # once is enough for cases that are planned one right after the other
            if self._memory_rises():
                plan = self._plan(profile)
        return plan

    def _plan(self, profile: Profile) -> Plan:
        rehearsal = self._place.rehearsal
        past = summaries.learned(self._store, profile.knobs, profile.sglang_version, rehearsal=rehearsal)
        found = self._planner.forecast(profile, {}, Snapshot(at=0.0), past)
        return Plan(None, "") if found is None else Plan(found.fits, found.verdict)

    def _memory_rises(self) -> bool:
        """Whether the GPUs were still getting memory back, of a server that ended a moment ago; waits until not."""
        rose, free = False, self._free()
        for _ in range(_RISES):
            time.sleep(_RISE_S)
            before, free = free, self._free()
            if all(gib <= before.get(uuid, gib) + _TOLERANCE_GIB for uuid, gib in free.items()):
                break
            rose = True
        return rose

    def launch(self, case: Case) -> str:
        profile = self.profile(case)
        self._free_gib = {} if profile.knobs.get("device") == "cpu" else self._free()
        run = control.launch(profile, self._store, rehearsal=self._place.rehearsal)
        taken = ControlLock.take(run)
        self._lock = None if isinstance(taken, Owner) else taken
        self._watched = WatchedRun(run, self._place)
        return run.name

    def wait(self, run: str, tick: Callable[[str], None]) -> Outcome:
        watched = self._of(run)
        over = watched.wait(
            lambda shot: shot.state in (State.RUNNING, *ENDED),
            self._timeout_s,
            lambda shot: tick(_doing(shot)),
        )
        if not over:
            return _outcome(watched.snapshot, why=f"not ready after {self._timeout_s:.0f} s")
        if watched.snapshot.state is not State.RUNNING:
            return _outcome(watched.settle())
        return _outcome(watched.snapshot)

    def bench(self, run: str, workloads: Sequence[Workload], tick: Callable[[str], None]) -> tuple[BenchResult, ...]:
        return Bench(self._store.load(run), self._engine, self._say, tick).run(workloads)

    def stop(self, run: str) -> None:
        found = self._store.load(run)
        last = None
        try:
            for step in stopping.stop(found, _GRACE_S, "sweep", self._memory_back(found)):
                last = step
        finally:
            self._close(run)
        if last is not None and not last.ok:
            raise SweepError(f"{run} did not leave the machine as it was: {last.text}")

    def leftovers(self, case: Case, since: float) -> list[str]:
        """Only what a sweep that was killed while it launched can have left: this profile, begun at that moment."""
        name = self.profile(case).name
        return [
            run.name
            for run in self._store.active()
            if run.profile == name
            and run.rehearsal == self._place.rehearsal
            and since <= (run.started_at or 0.0) <= since + _LAUNCH_S
        ]

    def _close(self, run: str) -> None:
        if self._watched is not None and self._watched.run.name == run:
            self._watched.close()
            self._watched = None
        else:
            summaries.ensure(self._store.load(run))
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _of(self, run: str) -> WatchedRun:
        if self._watched is None or self._watched.run.name != run:
            raise SpecdeckError(f"{run} is not watched.")
        return self._watched

    def _memory_back(self, run: Run) -> Callable[[], str | None]:
        """Whether the GPUs have what they had before the launch: the driver takes seconds to give back what a dead
        process held, and tells no holder meanwhile. Of a server that another sweep launched: whether it stopped rising.
        """
        before = dict(self._free_gib) if self._watched is not None and self._watched.run.name == run.name else {}
        host = run.knobs.get("device") == "cpu"
        last: dict[str, float] = {}

        def held() -> str | None:
            if host:
                return None
            free = self._free()
            if not before:
                rose = not last or any(free[uuid] > last.get(uuid, 0.0) + _TOLERANCE_GIB for uuid in free)
                last.update(free)
                if rose:
                    time.sleep(_RISE_S)
                return "the GPUs' memory is still being given back" if rose else None
            short = {uuid: gib - free.get(uuid, gib) for uuid, gib in before.items()}
            most = max(short.values(), default=0.0)
            return f"{most:.1f} GiB of GPU memory have not come back" if most > _TOLERANCE_GIB else None

        return held

    def _free(self) -> dict[str, float]:
        sample = self._place.sample(time.time(), (), host=False)
        return {gpu.uuid: gpu.free_gib for gpu in sample.gpus if gpu.free_gib is not None}


def _doing(shot: Snapshot) -> str:
    """The phase, and how far it is."""
    progress = shot.progress
    parts = ["launching" if progress.phase is Phase.NONE else progress.phase.value]
    if progress.text:
        parts.append(progress.text)
    elif progress.percent is not None:
        parts.append(f"{progress.percent:.0f} %")
    if progress.since is not None:
        parts.append(f"{max(0.0, shot.at - progress.since):.0f} s")
    return ", ".join(parts)


def _outcome(shot: Snapshot, why: str = "") -> Outcome:
    ready = shot.state is State.RUNNING and not why
    ranks = [rank.free for rank in shot.ranks if rank.free is not None]
    algorithm = shot.args.get("speculative_algorithm")
    launched, at = shot.progress.launched_at, shot.ready_at
    verdict = shot.verdict
    return Outcome(
        fraction=shot.fraction,
        ready=ready,
        verdict=verdict.kind if verdict and not ready else None,
        why="" if ready else why or (verdict.title if verdict else shot.state_reason or shot.state.value),
        kv_tokens=shot.kv_tokens,
        free_gib=min(ranks) if ranks else None,
        ready_s=max(0.0, at - launched) if at is not None and launched is not None else None,
        algorithm=algorithm if isinstance(algorithm, str) and algorithm else None,
    )
