"""Start a server without the screen. Exit 0 started (with --wait: it serves, or ended well), 1 not, 2 not launched."""

import argparse

from tui.commands.arguments import add_place_arguments
from tui.commands.common import place_from, snapshot_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a profile by name or file")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="another value for a knob")
    parser.add_argument("--wait", choices=("ready", "stopped"), help="return when it serves, or when it has ended")
    parser.add_argument("--timeout", type=float, metavar="S", help="wait no longer than this many seconds")
    parser.add_argument("--yes", action="store_true", help="do not ask, even if the plan says that it will not fit")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")
    add_place_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from tui.commands.control import confirm, print_json, reached, wait_for
    from tui.commands.knobwords import assignments
    from tui.feed.planning import Planner
    from tui.runs.store import RunStore
    from tui.server.control import launch
    from tui.server.profiles import find, set_knobs
    from tui.snapshot import Snapshot

    store = RunStore()
    place = place_from(options, store)
    profile = find(options.profile)
    changes = assignments(options.set)
    if changes:
        profile = set_knobs(profile, changes)
    profile = place.prepare(profile)
    planned = None if options.yes else Planner(place).forecast(profile, {}, Snapshot(at=0.0))
    if planned is not None and planned.fits is False:
        print(planned.verdict)
        if not confirm("Launch it all the same?", options.yes):
            return 2
    started = launch(profile, store, rehearsal=place.rehearsal)
    if options.wait is None:
        if options.json:
            print_json({"run": started.name, "url": started.url, "pid": started.server and started.server.pid})
        else:
            print(f"Started {profile.name} as {started.name}; `specdeck` shows it, `specdeck stop` stops it.")
        return 0
    snapshot = wait_for(started, place, options.wait, options.timeout, options.json)
    if options.json:
        print_json(snapshot_json(snapshot))
    else:
        from tui.commands.statustext import lines_of

        print("\n".join(lines_of(snapshot)))
    return 0 if reached(snapshot, options.wait) else 1
