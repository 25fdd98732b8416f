"""Which sweep is meant: a new one, or one that was interrupted; and how it is run."""

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.runs.benches import workloads
from tui.runs.sweepplan import Case, SweepError, make_cases, parse_budget
from tui.runs.sweepstate import Sweep, SweepStore, Trial
from tui.server.profiles import find

LAUNCH_TIMEOUT_S = 1800.0
# Kept with a sweep, so that it goes on where and how it was begun.
_PLACE = ("rehearsal", "speed", "seed", "sglang_version", "machine", "scenario")
_LIMITS = ("launch_timeout", "save", "no_save")


def sweep_asked(sweeps: SweepStore, options: argparse.Namespace) -> Sweep:
    """The sweep that the options ask for; they are completed by what was kept with it. Raises SpecdeckError."""
    budget = None if options.budget is None else parse_budget(options.budget)
    if options.resume is not None:
        found = sweeps.load(options.resume) if options.resume else sweeps.unfinished()
        if found is None:
            raise SweepError("No sweep was interrupted.")
        if found.finished:
            raise SweepError(f"The sweep {found.name} is finished: `specdeck sweep --list --resume {found.name}`.")
        complete(options, found)
        return found if budget is None else _with_budget(found, budget)
    if not options.profiles and not options.case:
        raise SweepError("Name a profile and what to vary: specdeck sweep PROFILE --vary cuda-graph-max-bs=512,128.")
    cases = tuple(map(_located, make_cases(options.profiles, options.vary, options.case)))
    workloads(options.bench, options.scale)
    asked = {
        "cases": [[case.profile, dict(case.knobs)] for case in cases],
        "bench": options.bench,
        "scale": options.scale,
        "engine": options.engine,
        "rehearsal": options.rehearsal,
    }
    if options.plan_only:
        return Sweep(name="plan", asked=asked, trials=tuple(Trial(case=case) for case in cases))
    found = None if options.new else sweeps.unfinished(json.loads(json.dumps(asked)))
    if found is not None:
        print(f"Going on with the sweep {found.name}; --new begins anew.", file=sys.stderr)
        return found if budget is None else _with_budget(found, budget)
    return sweeps.new(cases, asked, budget, _kept(options))


def _located(case: Case) -> Case:
    """With its profile's file, so that it is found from any folder. Raises ProfileError."""
    path = find(case.profile).path
    return case if path is None else replace(case, profile=str(path.absolute()))


def _kept(options: argparse.Namespace) -> dict[str, Any]:
    kept = {name: getattr(options, name) for name in (*_PLACE, *_LIMITS)}
    if options.save is not None:
        kept["save"] = str(Path(options.save).expanduser().absolute())
    return {**kept, "cwd": os.getcwd()}


def complete(options: argparse.Namespace, sweep: Sweep) -> None:
    """Set the options to what was kept with the sweep; limits that are given now go before."""
    options.rehearsal = bool(sweep.asked["rehearsal"])
    for name in _PLACE:
        setattr(options, name, sweep.options.get(name, getattr(options, name)))
    for name in _LIMITS:
        if not getattr(options, name):
            setattr(options, name, sweep.options.get(name))


def _with_budget(sweep: Sweep, budget_s: float) -> Sweep:
    """The budget given now counts from now."""
    return replace(sweep, budget_s=sweep.spent_s + budget_s)
