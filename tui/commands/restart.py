"""Stop the server, verify that all is gone, launch it again with other knobs. Exit 0 done, 1 not, 2 nothing done."""

import argparse
import sys

from tui.commands.common import run_named, snapshot_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run by name; by default the living one")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="another value; KNOB= removes")
    parser.add_argument("--grace", type=float, default=30.0, metavar="S", help="seconds until SIGKILL (default 30)")
    parser.add_argument("--wait", choices=("ready",), help="return when it serves or has failed")
    parser.add_argument("--timeout", type=float, metavar="S", help="wait no longer than this many seconds")
    parser.add_argument("--or-back", action="store_true", help="with --wait: on failure launch what was ready before")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")


def run(options: argparse.Namespace) -> int:
    from tui.commands.control import confirm, in_flight, print_json, serves, take, tell, wait_for
    from tui.commands.knobwords import assignments
    from tui.feed.memory import memory_back
    from tui.feed.place import place_of
    from tui.feed.planning import Planner
    from tui.runs.store import Run, RunStore
    from tui.server import control

    store = RunStore()
    found = run_named(store, options.run)
    place = place_of(found)
    changes = assignments(options.set)
    words = ", ".join(f"{name} {value}" for name, value in changes.items()) or "unchanged"
    profile = place.prepare(control.profile_of(found))
    checked = Planner(place).preflight(profile, changes, store.root, replaced=found)
    fatal = [f"{finding.text} To mend it: {finding.fix}." for finding in checked if finding.severity == "error"]
    if fatal:
        print("Nothing is stopped, for the launch would fail:", *fatal, sep="\n", file=sys.stderr)
        return 2
    if not options.json and (told := in_flight(found)):
        print(told)
    if not confirm(f"Restart {found.profile or found.name} with its knobs {words}?", options.yes):
        return 2
    with take(found):
        memory = memory_back(place, found)
        steps = control.restart(
            found, profile, store, changes, grace_s=options.grace, memory_back=memory, rehearsal=place.rehearsal
        )
        last = tell(steps, options.json)
    new: Run | None = last.run if last is not None and last.ok else None
    if new is None:
        if options.json:
            print_json({"run": None, "text": last.text if last else ""})
        return 1
    if options.wait is None:
        if options.json:
            print_json({"run": new.name, "url": new.url})
        return 0
    now = snapshot = wait_for(new, place, "ready", options.timeout, options.json)
    if not serves(snapshot) and options.or_back:
        ready = control.last_ready(store, new)
        if ready is not None:
            if not options.json:
                print(f"{new.name} failed; going back to {ready.name}.")
            back = control.launch(place.prepare(control.profile_of(ready)), store, rehearsal=place.rehearsal)
            now = wait_for(back, place, "ready", options.timeout, options.json)
            if not options.json:
                print(f"{back.name}: {now.state}.")
    if options.json:
        print_json(snapshot_json(now))
    return 0 if serves(snapshot) else 1
