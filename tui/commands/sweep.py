"""Try profiles and knob values one after the other, unattended: plan, launch, bench, record, and rank what came of it.

Exit 0 something was measured, 1 nothing was, 2 the question makes no sense. An interrupted sweep goes on with --resume,
or when the same is asked again.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from tui.commands.common import add_place_arguments

_PROGRESS_S = 10.0


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
    parser.add_argument("--launch-timeout", type=float, default=1800.0, metavar="S", help="give a start up after S s")
    parser.add_argument("--plan-only", action="store_true", help="say what would be tried and what cannot fit")
    parser.add_argument("--new", action="store_true", help="begin anew even if the same sweep was interrupted")
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="NAME", help="go on with an interrupted sweep (the latest one)"
    )
    parser.add_argument("--list", action="store_true", help="the sweeps so far; with --resume NAME its table")
    parser.add_argument("--save", metavar="FILE", help="where the best profile goes (default: your profile folder)")
    parser.add_argument("--no-save", action="store_true", help="do not save the best profile")
    parser.add_argument("--json", action="store_true", help="the finished sweep as JSON")
    add_place_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from tui.commands.common import place_from
    from tui.commands.sweepmachine import PlaceMachine
    from tui.runs.benches import workloads
    from tui.runs.store import RunStore
    from tui.runs.sweeping import run_sweep
    from tui.runs.sweepstate import SweepStore

    store = RunStore()
    sweeps = SweepStore(store.root)
    if options.list:
        return _list(sweeps, options.resume)
    sweep = _sweep(sweeps, options)
    options.rehearsal = bool(sweep.asked["rehearsal"])
    chosen = workloads(sweep.asked["bench"], sweep.asked["scale"])
    voice = _Voice(quiet=options.json)
    place = _quiet_place(place_from(options, store))
    machine = PlaceMachine(place, store, sweep.asked["engine"], options.launch_timeout, voice.line)
    if options.plan_only:
        return _plan_only(sweep, machine)
    voice.line(f"Sweep {sweep.name}: {sweep.left} of {len(sweep.trials)} launches to come.")
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        done = run_sweep(sweep, sweeps, machine, chosen, voice.tell)
    except KeyboardInterrupt:
        print(f"Interrupted; `specdeck sweep --resume {sweep.name}` goes on.", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    return _end(done, options)


class _Voice:
    """Says what happens: every step, and now and then how a long one goes on."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._said = ""
        self._at = 0.0

    def line(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    def tell(self, sweep: Any, text: str) -> None:
        from tui.runs.sweeping import left_s
        from tui.runs.sweeptext import duration

        now = time.monotonic()
        counting = any(char.isdigit() for char in text.rpartition(": ")[2]) and text.count(": ") > 1
        if text == self._said or (counting and now - self._at < _PROGRESS_S):
            return
        self._said, self._at = text, now
        left = left_s(sweep)
        self.line(text if left is None or counting else f"{text}  (about {duration(left)} left)")


def _sweep(sweeps: Any, options: argparse.Namespace) -> Any:
    """The sweep that is asked for: a new one, or the interrupted one that asked the same."""
    from tui.runs.benches import workloads
    from tui.runs.sweepplan import SweepError, make_cases, parse_budget

    budget = None if options.budget is None else parse_budget(options.budget)
    if options.resume is not None:
        found = sweeps.load(options.resume) if options.resume else sweeps.unfinished()
        if found is None:
            raise SweepError("No sweep was interrupted.")
        return found if budget is None else _with_budget(found, budget)
    if not options.profiles and not options.case:
        raise SweepError("Name a profile and what to vary: specdeck sweep PROFILE --vary cuda-graph-max-bs=512,128.")
    cases = make_cases(options.profiles, options.vary, options.case)
    workloads(options.bench, options.scale)
    asked = {
        "cases": [[case.profile, dict(case.knobs)] for case in cases],
        "bench": options.bench,
        "scale": options.scale,
        "engine": options.engine,
        "rehearsal": options.rehearsal,
    }
    found = None if options.new or options.plan_only else sweeps.unfinished(json.loads(json.dumps(asked)))
    if found is not None:
        print(f"Going on with the sweep {found.name}; --new begins anew.", file=sys.stderr)
        return found if budget is None else _with_budget(found, budget)
    if options.plan_only:
        from tui.runs.sweepstate import Sweep, Trial

        return Sweep(name="plan", asked=asked, trials=tuple(Trial(case=case) for case in cases))
    return sweeps.new(cases, asked, budget)


def _with_budget(sweep: Any, budget_s: float) -> Any:
    """The budget given now counts from now."""
    from dataclasses import replace

    return replace(sweep, budget_s=sweep.spent_s + budget_s)


def _quiet_place(place: Any) -> Any:
    """The rehearsal's own traffic would be measured too."""
    from dataclasses import replace

    if place.rehearsal:
        place.settings = replace(place.settings, concurrency=0)
    return place


def _plan_only(sweep: Any, machine: Any) -> int:
    fits = 0
    for trial in sweep.trials:
        plan = machine.plan(trial.case)
        word = {True: "fits", False: "skip", None: "cannot tell"}[plan.fits]
        print(f"{word:<12} {trial.case.title}: {plan.text}")
        fits += plan.fits is not False
    return 0 if fits else 1


def _end(sweep: Any, options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tui.runs.sweepstate import DONE, ranked
    from tui.runs.sweeptext import duration, table_lines

    measured = any(trial.status == DONE and trial.results for trial in sweep.trials)
    if options.json:
        print(json.dumps(asdict(sweep), indent=1))
    else:
        print("\n".join(["", *table_lines(sweep), "", f"It took {duration(sweep.spent_s)}."]))
    if measured and not options.no_save:
        path = _save_best(ranked(sweep.trials)[0].case, options.save)
        print(f"The best is saved as {path}.", file=sys.stderr if options.json else sys.stdout)
    return 0 if measured else 1


def _save_best(case: Any, target: str | None) -> Path:
    """The best case as a profile; where its own file was, its relative paths still start."""
    import tomlkit

    from tui.server.profiles import find, parse, rename, save, set_knobs, user_folder

    found = find(case.profile)
    name = f"{found.name}-best"
    best = rename(set_knobs(found, case.knobs) if case.knobs else found, name)
    path = Path(target).expanduser() if target else user_folder() / f"{name}.toml"
    document = tomlkit.parse(best.text)
    server: Any = document["server"]
    server["cwd"] = str((found.folder / (found.cwd or ".")).resolve())
    return save(parse(tomlkit.dumps(document)), path)


def _list(sweeps: Any, name: str | None) -> int:
    from tui.runs.sweepstate import DONE
    from tui.runs.sweeptext import table_lines

    if name:
        print("\n".join(table_lines(sweeps.load(name))))
        return 0
    for each in sweeps.names():
        sweep = sweeps.load(each)
        done = sum(trial.status == DONE for trial in sweep.trials)
        state = "finished" if sweep.finished else f"interrupted, {sweep.left} to come"
        print(f"{each}  {state}, {done} of {len(sweep.trials)} measured")
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
