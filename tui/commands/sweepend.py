"""What a sweep says when it has ended, and the best profile that it leaves."""

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tui.runs.sweepplan import Case, SweepError
from tui.runs.sweepstate import DONE, Sweep, SweepStore, ranked
from tui.runs.sweeptext import table_lines
from tui.runs.sweeptime import duration


def end(sweep: Sweep, sweeps: SweepStore, options: argparse.Namespace) -> int:
    """The table, and the best case as a profile. 0: something was measured. Raises SpecdeckError."""
    measured = any(trial.status == DONE and trial.results for trial in sweep.trials)
    saved: Path | None = None
    if measured and not options.no_save:
        saved = _save_best(ranked(sweep.trials)[0].case, options.save)
        sweep = replace(sweep, saved=str(saved))
        sweeps.save(sweep)
    if options.json:
        print(json.dumps(asdict(sweep), indent=1))
    else:
        print("\n".join(["", *table_lines(sweep), "", f"It took {duration(sweep.spent_s)}."]))
    if saved is not None:
        print(f"The best is saved as {saved}.", file=sys.stderr if options.json else sys.stdout)
    return 0 if measured else 1


def list_sweeps(sweeps: SweepStore, name: str | None, as_json: bool) -> int:
    """All of them, or the table of one. Raises SweepError."""
    from tui.runs.sweeplock import running

    if name:
        sweep = sweeps.load(name)
        print(json.dumps(asdict(sweep), indent=1) if as_json else "\n".join(table_lines(sweep)))
        return 0
    now = running(sweeps.folder)
    for each in sweeps.names():
        try:
            sweep = sweeps.load(each)
        except SweepError as error:
            print(f"{each}  damaged: {error}")
            continue
        done = sum(trial.status == DONE for trial in sweep.trials)
        state = "finished" if sweep.finished else f"interrupted, {sweep.left} to come"
        if each == now:
            state = f"running, {sweep.left} to come"
        print(f"{each}  {state}, {done} of {len(sweep.trials)} measured")
    return 0


def _save_best(case: Case, target: str | None) -> Path:
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
