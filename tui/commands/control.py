"""Running and stopping for scripts: the same control as on the screen, told line by line."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable

from tui.errors import SpecdeckError
from tui.facts import Loads
from tui.feed.place import Place
from tui.feed.pump import Pump
from tui.feed.targets import of_run
from tui.feed.watch import Watch
from tui.runs.store import Run, load_run
from tui.server import control
from tui.server.lock import ControlLock, Owner
from tui.server.stopping import Step
from tui.snapshot import ENDED, Snapshot, State
from tui.sources.endpoints import EndpointSource
from tui.wording import count

PROOF_LIMIT_S = 30.0  # for the port's answer, once the log says that the server is ready


def confirm(question: str, yes: bool) -> bool:
    """Whether to go on. Without a terminal only --yes says so."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print("Nobody is there to ask: add --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def in_flight(run: Run) -> str:
    """How many requests a stop must wait for, in a sentence; empty where the server does not tell. At most seconds."""
    target = of_run(run)
    if target.url is None or control.port_is_ours(run) is not True:
        return ""
    source = EndpointSource(target.url, target.api_key)
    try:
        loads = [load for fact in source.poll(time.time()) if isinstance(fact, Loads) for load in fact.loads]
    finally:
        source.close()
    if not any(load.running is not None for load in loads):
        return ""
    running, waiting = (sum(counts) for counts in zip(*((x.running or 0, x.waiting or 0) for x in loads), strict=True))
    return f"{count(running)} requests in flight, {count(waiting)} waiting."


def take(run: Run) -> ControlLock:
    """The right to control a run, until it is released. Raises SpecdeckError when a dashboard has it."""
    taken = ControlLock.take(run)
    if isinstance(taken, Owner):
        raise SpecdeckError(
            f"{taken} controls this server now: do it from there or leave that dashboard, or use `stop --force`."
        )
    return taken


def tell(steps: Iterable[Step], quiet: bool) -> Step | None:
    """Print each step; the last one. Ctrl-C does nothing after the present step, and says so."""
    last: Step | None = None
    try:
        for step in steps:
            last = step
            if not quiet:
                left = f" ({step.left_s:.0f} s left)" if step.left_s else ""
                print(step.text + left, flush=True)
    except KeyboardInterrupt:
        print("No longer waited for: what was asked to stop still stops, nothing is launched.", file=sys.stderr)
        raise
    return last


def wait_for(run: Run, place: Place, what: str, timeout_s: float | None, quiet: bool) -> Snapshot:
    """Watch until it is "ready" (see `serves`) or "stopped", has ended, or the time is over; the last snapshot."""
    try:
        return asyncio.run(_wait_for(run, place, what, timeout_s, quiet))
    except KeyboardInterrupt:
        print(f"{run.name} goes on: `specdeck` shows it, `specdeck stop` stops it.", file=sys.stderr)
        raise


async def _wait_for(run: Run, place: Place, what: str, timeout_s: float | None, quiet: bool) -> Snapshot:
    pump = Pump()
    watch = Watch(of_run(run), place, pump)
    task = asyncio.create_task(watch.run())
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    said = ""
    try:
        while True:
            snapshot = await pump.snapshot(time.time())
            words = snapshot.progress.phase.value
            if words != said and not quiet:
                print(words, flush=True)
                said = words
            over = deadline is not None and time.monotonic() > deadline
            if snapshot.state in ENDED or over or (what == "ready" and _proved(snapshot, run)):
                if snapshot.state in ENDED:
                    await asyncio.sleep(0.5)  # the log's last lines are read after the keeper's word
                    snapshot = await pump.snapshot(time.time())
                return snapshot
            if task.done():
                task.result()
            await asyncio.sleep(0.1)
    finally:
        watch.stop()
        await task
        pump.close()


def serves(snapshot: Snapshot) -> bool:
    """Whether it is ready by its log and, as far as its port was heard, by that."""
    return snapshot.state is State.RUNNING and snapshot.endpoint != "foreign"


def reached(snapshot: Snapshot, what: str) -> bool:
    """Whether that is so which was waited for: it serves, or it has ended as it should."""
    return serves(snapshot) if what == "ready" else snapshot.state in (State.EXITED, State.STOPPED)


def _proved(snapshot: Snapshot, run: Run) -> bool:
    """The log's word is no proof; its own port's answer is, and then the run can be gone back to."""
    if snapshot.state is not State.RUNNING or snapshot.ready_at is None:
        return False
    if snapshot.endpoint == "ready" and load_run(run.path).ready_at is not None:
        return True
    return snapshot.at > snapshot.ready_at + PROOF_LIMIT_S


def print_json(value: object) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=1))
