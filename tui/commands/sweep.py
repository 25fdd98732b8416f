"""Try profiles and knob values one after the other, unattended: plan, launch, bench, record, and rank what came of it.

Exit 0 something was measured, 1 nothing was, 2 the question makes no sense. An interrupted sweep goes on with --resume,
or when the same is asked again.
"""

import argparse
import re
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from tui.commands.arguments import add_place_arguments, add_screen_arguments
from tui.errors import SpecdeckError

if TYPE_CHECKING:
    from tui.runs.store import RunStore
    from tui.runs.sweepstate import Sweep, SweepStore

_PROGRESS_S = 10.0
_NUMBERS = re.compile(r"\d+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profiles", nargs="*", metavar="PROFILE", help="profiles by name or file")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KNOB=A,B,C",
        help="values of a knob, or FROM..TO:STEP; several --vary make every combination",
    )
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="PROFILE,KNOB=V,…",
        help="one more launch, after the combinations",
    )
    parser.add_argument(
        "--bench", default="decode-1", metavar="NAMES", help="workloads, as `specdeck bench` knows them"
    )
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="answers X times as long")
    parser.add_argument("--engine", choices=("auto", "sglang", "specdeck"), default="auto", help="who makes the load")
    parser.add_argument("--budget", metavar="2h", help="begin no case that would end after this time")
    parser.add_argument("--launch-timeout", type=float, metavar="S", help="give a start up after S s (1800)")
    parser.add_argument(
        "--watch", action="store_true", help="run it in the background and show it; alone: show the newest sweep"
    )
    parser.add_argument("--plan-only", action="store_true", help="say what would be tried and what cannot fit")
    parser.add_argument("--new", action="store_true", help="begin anew even if the same sweep was interrupted")
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="NAME", help="go on with an interrupted sweep (the latest one)"
    )
    parser.add_argument("--list", action="store_true", help="the sweeps so far; with --resume NAME its table")
    parser.add_argument("--save", metavar="FILE", help="where the best profile goes (default: your profile folder)")
    parser.add_argument("--no-save", action="store_true", help="do not save the best profile")
    parser.add_argument("--json", action="store_true", help="the finished sweep as JSON")
    add_screen_arguments(parser)
    add_place_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from tui.commands.sweepasked import sweep_asked
    from tui.commands.sweepend import list_sweeps
    from tui.runs.store import RunStore
    from tui.runs.sweepstate import SweepStore

    store = RunStore()
    sweeps = SweepStore(store.root)
    if options.list:
        return list_sweeps(sweeps, options.resume, options.json)
    if options.watch:
        return _watch(store, sweeps, options)
    sweep = sweep_asked(sweeps, options)
    return _plan_only(sweep, store, options) if options.plan_only else _run(sweep, store, sweeps, options)


def _run(sweep: "Sweep", store: "RunStore", sweeps: "SweepStore", options: argparse.Namespace) -> int:
    from tui.commands.sweepend import end
    from tui.runs.benches import workloads
    from tui.runs.sweeping import SweepCancelled, run_sweep
    from tui.runs.sweeplock import SweepLock

    chosen = workloads(sweep.asked["bench"], sweep.asked["scale"])
    voice = _Voice(quiet=options.json)
    machine = _machine(sweep, store, options, voice)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with SweepLock.take(sweeps.folder, sweep.name):
            voice.line(f"Sweep {sweep.name}: {sweep.left} of {len(sweep.trials)} launches to come.")
            done = run_sweep(sweep, sweeps, machine, chosen, voice.tell)
            return end(done, sweeps, options)
    except KeyboardInterrupt as stopped:
        word = "Cancelled" if isinstance(stopped, SweepCancelled) else "Interrupted"
        print(f"{word}; `specdeck sweep --resume {sweep.name}` goes on.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(store: "RunStore", sweeps: "SweepStore", options: argparse.Namespace) -> int:
    """The screen; a sweep that is asked for, and does not run yet, is begun in a process of its own."""
    from tui.app import refusal
    from tui.commands.sweepasked import sweep_asked
    from tui.runs.sweeplock import running
    from tui.runs.sweepplan import SweepError
    from tui.runs.sweeproom import begin

    if options.json or options.plan_only:
        raise SweepError("--watch shows a screen: leave out --json and --plan-only.")
    if (problem := refusal()) is not None:
        raise SweepError(problem)
    if options.resume is not None or options.profiles or options.case:
        sweep = sweep_asked(sweeps, options)
        if running(sweeps.folder) != sweep.name:
            sweeps.save(sweep)
            begin(store.root, sweep.name)
    else:
        name = running(sweeps.folder) or next(iter(sweeps.names()), None)
        if name is None:
            raise SweepError("No sweep yet: specdeck sweep PROFILE --vary cuda-graph-max-bs=512,128 --watch.")
        sweep = sweeps.load(name)
    return _show(sweep, store, sweeps, options)


def _show(sweep: "Sweep", store: "RunStore", sweeps: "SweepStore", options: argparse.Namespace) -> int:
    from tui.app.sweepapp import run_sweep_app
    from tui.commands.common import place_from
    from tui.commands.sweepasked import complete
    from tui.feed.following import FollowingFeed
    from tui.runs.sweeplock import running

    complete(options, sweep)
    status = run_sweep_app(
        FollowingFeed(place_from(options, store), store, sweep.name),
        sweep.name,
        read_only=options.read_only,
        mouse=not options.no_mouse,
        ascii_only=options.ascii,
        theme=options.theme,
    )
    if running(sweeps.folder) == sweep.name:
        print("The sweep goes on; `specdeck sweep --watch` shows it again.", file=sys.stderr)
    return status


def _machine(sweep: "Sweep", store: "RunStore", options: argparse.Namespace, voice: "_Voice") -> Any:
    from dataclasses import replace

    from tui.commands.common import place_from
    from tui.commands.sweepasked import LAUNCH_TIMEOUT_S
    from tui.commands.sweepmachine import PlaceMachine
    from tui.feed.place import RehearsalPlace

    place = place_from(options, store)
    if isinstance(place, RehearsalPlace):  # its own traffic would be measured too
        place.settings = replace(place.settings, concurrency=0)
    timeout_s = options.launch_timeout or LAUNCH_TIMEOUT_S
    return PlaceMachine(place, store, sweep.asked["engine"], timeout_s, voice.line)


class _Voice:
    """Says what happens: every step, and now and then how a long one goes on."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._said = ""
        self._at = 0.0

    def line(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    def tell(self, sweep: "Sweep", text: str) -> None:
        from tui.runs.sweeptime import duration, left_s

        head, _, last = text.rpartition(": ")
        step, now = head + _NUMBERS.sub("", last.partition(",")[0]), time.monotonic()
        if step == self._said and now - self._at < _PROGRESS_S:
            return
        left = left_s(sweep, time.time()) if step != self._said else None
        self._said, self._at = step, now
        self.line(text if not left else f"{text}  (about {duration(left)} left)")


def _plan_only(sweep: "Sweep", store: "RunStore", options: argparse.Namespace) -> int:
    machine = _machine(sweep, store, options, _Voice(quiet=True))
    fits = 0
    for trial in sweep.trials:
        try:
            plan = machine.plan(trial.case, patient=False)
        except SpecdeckError as error:
            print(f"{'cannot tell':<12} {trial.case.title}: {error}")
            continue
        word = {True: "fits", False: "skip", None: "cannot tell"}[plan.fits]
        print(f"{word:<12} {trial.case.title}: {plan.text}")
        fits += plan.fits is not False
    return 0 if fits else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
