"""The feed of a living server: what it is now, and what can be done with it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tui.errors import SpecdeckError
from tui.facts import Fact
from tui.feed import steps
from tui.feed.asking import save_as, seen_servers
from tui.feed.coach import Coach
from tui.feed.memory import memory_back
from tui.feed.place import Place
from tui.feed.planning import PlannedForecast, Planner
from tui.feed.pump import Pump
from tui.feed.targets import Target, nothing, of_pid, of_run
from tui.feed.watch import Watch
from tui.port import FlagInfo, LogView, ProfileChoice, SeenServer, Told
from tui.procid import process_id
from tui.runs.history import RunHistory
from tui.runs.recorder import Recorder
from tui.runs.store import Run, RunStore
from tui.runs.summaries import expectation, learned, past_speeds
from tui.server import control, stopping
from tui.server.adopt import adopt
from tui.server.commandline import merge_knobs
from tui.server.lock import ControlLock, Owner, owner_of
from tui.server.preflight import Finding
from tui.server.profiles import Profile, available, find, set_knobs
from tui.snapshot import Caution, Snapshot

QUIET_S = 1.0  # between two snapshots when nothing urgent happens
SOON_S = 0.02  # urgent facts come in bursts (eight ranks at once): one picture for all of them


class LiveFeed:
    """Watches one target at a time and controls what specdeck launched or adopted. See `tui.port.Feed`."""

    def __init__(self, place: Place, store: RunStore, target: Target | None = None, *, read_only: bool = False) -> None:
        self.snapshot = Snapshot(at=time.time(), rehearsal=place.rehearsal)
        self.read_only = read_only
        self.place = place
        self._store = store
        self._target = target or nothing()
        self._pump: Pump | None = None
        self._watch: Watch | None = None
        self._switched = asyncio.Event()
        self._planner = Planner(place)
        self._lock: ControlLock | None = None
        self._recorder: Recorder | None = None
        self._owner = ""
        self.history = RunHistory(store, self._tell_past)
        self.playback = None
        self.greeting = ""  # said on the screen when it opens
        self.caption = ""
        self.coach: Coach | None = None  # on the rehearsal, whoever does not know the screen yet is told what to try
        self.leaving = "The server stays: it runs in its own session, and `specdeck` finds it again."
        self.launch_first: str | None = None  # a profile to launch as soon as the screen is there

    # ---- the stream

    @property
    def log(self) -> LogView | None:
        return self._watch.log if self._watch is not None else None

    @property
    def run_now(self) -> Run | None:
        """The run that is watched, as its folder tells it now."""
        run = self._target.run
        if run is None:
            return None
        found = self._store.load(run.name)
        return run if found.damaged is not None else found  # somebody removed its folder: it must be stoppable still

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        self._pump = Pump()
        try:
            if self.launch_first is not None:
                problem = await self.launch(self.launch_first, {})
                self.greeting = problem or f"{self.launch_first} is starting."
            while True:
                self._switched.clear()
                await self._watch_target(on_snapshot)
        finally:
            self._pump.close()
            self._release()

    async def _watch_target(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        assert self._pump is not None
        recorder = await self._begin_recording(self._pump)
        self._watch = Watch(self._target, self.place, self._pump)
        watching = asyncio.create_task(self._watch.run())
        drawing = asyncio.create_task(self._draw(self._pump, on_snapshot))
        switching = asyncio.create_task(self._switched.wait())
        try:
            await asyncio.wait({watching, drawing, switching}, return_when=asyncio.FIRST_COMPLETED)
            for task in (watching, drawing):
                if task.done():
                    task.result()
        finally:
            self._watch.stop()
            drawing.cancel()
            switching.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(drawing, switching, return_exceptions=True)
                await watching
            await self._pump.record_to(None)
            if recorder is not None:
                await asyncio.to_thread(recorder.close)

    async def _begin_recording(self, pump: Pump) -> Recorder | None:
        """A run is recorded while it is watched; what earlier runs of its profile took is told first."""
        run = self._target.run
        if run is None:
            return None
        recorder = Recorder(run.path)
        await pump.record_to(recorder.record)
        if run.ready_at is None and run.exited is None:
            expected = await asyncio.to_thread(expectation, self._store, run.profile)
            if expected is not None:
                await pump.push([expected])
        if run.exited is None:
            await pump.push(await asyncio.to_thread(past_speeds, self._store, run))
        self._recorder = recorder
        return recorder

    async def _tell_past(self) -> None:
        """Another baseline was pinned."""
        run = self.run_now
        if run is not None and run.exited is None:
            await self._tell(*await asyncio.to_thread(past_speeds, self._store, run))

    async def _draw(self, pump: Pump, on_snapshot: Callable[[Snapshot], None]) -> None:
        while True:
            found = await pump.snapshot(time.time())
            warnings = (*found.warnings, *self._unrecorded())
            self.snapshot = replace(found, rehearsal=found.rehearsal or self.place.rehearsal, warnings=warnings)
            if self.coach is not None:
                self.caption = self.coach.hint(self.snapshot)
            on_snapshot(self.snapshot)
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_S):
                    await pump.urgent.wait()
                await asyncio.sleep(SOON_S)
            pump.urgent.clear()
            if self._recorder is not None:
                await pump.call(self._recorder.tick)
            if self._target.run is not None:
                await asyncio.to_thread(self._look_at_owner, self._target.run)

    def _unrecorded(self) -> tuple[Caution, ...]:
        """Why what is seen now will be missing in the history."""
        problem = self._recorder.problem if self._recorder is not None else None
        if problem is None or self._target.run is None:
            return ()
        if not self._target.run.path.is_dir():
            problem = f"The run folder {self._target.run.path} is gone. The server goes on, and S can still stop it."
        text = problem if "is not recorded" in problem else f"Nothing is recorded. {problem}"
        return (Caution(kind="not-recorded", text=text),)

    def _switch(self, target: Target) -> None:
        self._target = target
        self._owner = ""
        self._switched.set()

    async def _tell(self, *facts: Fact) -> None:
        if self._pump is not None:
            await self._pump.push(facts)

    # ---- what may be asked

    def profiles(self) -> tuple[ProfileChoice, ...]:
        return tuple(
            ProfileChoice(
                name=listed.name,
                path=str(listed.path),
                description=listed.profile.description if listed.profile else "",
                problem=listed.problem,
            )
            for listed in available()
        )

    def flags(self) -> tuple[FlagInfo, ...]:
        return self._planner.flags(self._profile(), self.snapshot.sglang_version)

    async def forecast(self, knobs: Mapping[str, Any]) -> PlannedForecast | None:
        return await asyncio.to_thread(self._plan_restart, knobs)

    async def forecast_launch(self, profile: str, knobs: Mapping[str, Any]) -> PlannedForecast | None:
        return await asyncio.to_thread(lambda: self._plan(find(profile), knobs))

    async def preflight(self, profile: str | None, knobs: Mapping[str, Any]) -> tuple[Finding, ...]:
        if profile is not None:
            return await asyncio.to_thread(lambda: self._planner.preflight(find(profile), knobs, self._store.root))
        run = self.run_now
        if run is None:
            return ()
        return await asyncio.to_thread(
            lambda: self._planner.preflight(control.profile_of(run), knobs, self._store.root, replaced=run)
        )

    async def command(self, knobs: Mapping[str, Any]) -> str:
        profile = await asyncio.to_thread(self._profile)
        if profile is None:
            raise SpecdeckError("There is no launch to write down: this server was not launched from here.")
        return self._planner.command(profile, knobs)

    async def save_profile(self, name: str, knobs: Mapping[str, Any]) -> str:
        if self.read_only:
            raise SpecdeckError("This dashboard is read-only.")
        profile = await asyncio.to_thread(self._profile)
        if profile is None:
            raise SpecdeckError("There is no profile to save: this server was not launched from here.")
        return str(await asyncio.to_thread(save_as, profile, name, knobs))

    def _plan_restart(self, knobs: Mapping[str, Any]) -> PlannedForecast | None:
        profile = self._profile()
        return None if profile is None else self._plan(profile, knobs)

    def _plan(self, profile: Profile, knobs: Mapping[str, Any]) -> PlannedForecast | None:
        version = self.snapshot.sglang_version or profile.sglang_version
        merged = merge_knobs(profile.knobs, knobs)
        past = learned(self._store, merged, version, rehearsal=self.place.rehearsal)
        return self._planner.forecast(profile, knobs, self.snapshot, past)

    # ---- control

    async def launch(self, profile: str, knobs: Mapping[str, Any]) -> str | None:
        if self.read_only:
            return "This dashboard is read-only."
        try:
            run = await asyncio.to_thread(self._launch, profile, knobs)
        except SpecdeckError as error:
            return str(error)
        self._taken_over(run)
        return None

    def _launch(self, name: str, knobs: Mapping[str, Any]) -> Run:
        profile = find(name)
        prepared = self.place.prepare(set_knobs(profile, knobs) if knobs else profile)
        return control.launch(prepared, self._store, rehearsal=self.place.rehearsal)

    async def stop(self, grace_s: float) -> AsyncIterator[Told]:
        run = self.run_now
        refusal = self._refusal(run, "stop")
        if run is None or refusal is not None:
            yield Told(refusal or "", "done", ok=False)
            return
        async for step in steps.each(stopping.stop(run, grace_s, "stop asked for", memory_back(self.place, run))):
            yield steps.told(step)

    async def kill(self) -> str | None:
        run = self.run_now
        refusal = self._refusal(run, "kill")
        if run is None or refusal is not None:
            return refusal
        async for step in steps.each(stopping.kill(run)):
            if step.kind == "done" and not step.ok:
                return step.text
        return None

    async def restart(self, knobs: Mapping[str, Any]) -> AsyncIterator[Told]:
        run = self.run_now
        refusal = self._refusal(run, "restart")
        if run is None or refusal is not None:
            yield Told(refusal or "", "done", ok=False)
            return
        try:
            profile = self.place.prepare(await asyncio.to_thread(control.profile_of, run))
        except SpecdeckError as error:
            yield Told(f"Nothing was stopped: {error}", "done", ok=False)
            return
        restarting = control.restart(
            run,
            profile,
            self._store,
            knobs,
            memory_back=memory_back(self.place, run),
            rehearsal=self.place.rehearsal,
        )
        try:
            async for step in steps.each(restarting):
                if step.kind == "done" and step.ok and step.run is not None:
                    self._taken_over(step.run)
                yield steps.told(step)
        finally:
            await asyncio.to_thread(steps.close, restarting)

    async def back_to(self) -> str | None:
        run = await asyncio.to_thread(control.last_ready, self._store, self.run_now)
        return None if run is None else run.name

    async def go_back(self) -> AsyncIterator[Told]:
        if self.read_only:
            yield Told("This dashboard is read-only.", "done", ok=False)
            return
        run = await asyncio.to_thread(control.last_ready, self._store, self.run_now)
        if run is None:
            again = " R launches this one again." if self._target.run is not None else ""
            words = f"No earlier run reached ready, so there is nothing to go back to.{again}"
            yield Told(words, "done", ok=False)
            return
        try:
            profile = self.place.prepare(await asyncio.to_thread(control.profile_of, run))
            new = await asyncio.to_thread(lambda: control.launch(profile, self._store, rehearsal=self.place.rehearsal))
        except SpecdeckError as error:
            yield Told(str(error), "done", ok=False)
            return
        self._taken_over(new)
        yield Told(f"Back to {run.name}: launched as {new.name}.", "done")

    # ---- servers that others started

    async def discover(self) -> tuple[SeenServer, ...]:
        return await asyncio.to_thread(seen_servers, self._store)

    async def attach(self, pid: int) -> str | None:
        try:
            target = await asyncio.to_thread(of_pid, pid, self._store)
        except SpecdeckError as error:
            return str(error)
        self._release()
        self._switch(target)
        return None

    async def adopt(self, pid: int) -> str | None:
        if self.read_only:
            return "This dashboard is read-only."
        process = process_id(pid)
        if process is None:
            return f"There is no process {pid} any more."
        try:
            run = await asyncio.to_thread(adopt, process, self._store)
        except SpecdeckError as error:
            return str(error)
        self._taken_over(run)
        return None

    @property
    def owner(self) -> str:
        return self._owner

    def _look_at_owner(self, run: Run) -> None:
        """One system call or two; from a worker thread."""
        found = owner_of(run) if self._lock is None else None
        self._owner = "" if found is None else str(found)

    def _refusal(self, run: Run | None, verb: str) -> str | None:
        if run is None:
            return f"There is nothing to {verb}: this server was not launched from here."
        return self._take_control(run)

    def _take_control(self, run: Run) -> str | None:
        if self.read_only:
            return "This dashboard is read-only."
        if self._lock is None:
            taken = ControlLock.take(run)
            if isinstance(taken, Owner):
                return f"{taken} controls this server now; this dashboard only watches."
            self._lock = taken
        return None

    def _taken_over(self, run: Run) -> None:
        self._release()
        self._take_control(run)
        self._switch(of_run(run))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _profile(self) -> Profile | None:
        run = self._target.run
        if run is None:
            return None
        try:
            return control.profile_of(run)
        except SpecdeckError:
            return None
