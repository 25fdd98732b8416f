"""One snapshot of the server: state, memory, load, verdict. Exit 0 it runs or ended well, 1 it failed, 2 unknown."""

import argparse
import json

from tui.commands.common import run_named, snapshot_json
from tui.feed.looking import look
from tui.feed.place import Place, place_of
from tui.feed.targets import Target, of_run
from tui.runs.store import RunStore
from tui.snapshot import State

EXIT = {State.FAILED: 1, State.UNKNOWN: 2, State.STOPPED: 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run by name; by default the living one")
    parser.add_argument("--json", action="store_true", help="the snapshot as JSON")


def run(options: argparse.Namespace) -> int:
    found = run_named(RunStore(), options.run)
    return show_once(of_run(found), place_of(found), as_json=options.json)


def show_once(target: Target, place: Place, *, as_json: bool) -> int:
    """Print one snapshot of a target; the exit status that goes with it."""
    snapshot = look(target, place)
    if as_json:
        print(json.dumps(snapshot_json(snapshot), indent=1))
    else:
        from tui.commands.statustext import lines_of

        print("\n".join(lines_of(snapshot)))
    return EXIT.get(snapshot.state, 0)
