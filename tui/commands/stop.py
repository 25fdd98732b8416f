"""Stop the server that specdeck started: SIGTERM, a countdown, SIGKILL to what is left, the proof that all is gone."""

import argparse
import contextlib

from tui.commands.common import run_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run by name; by default the living one")
    parser.add_argument("--grace", type=float, default=30.0, metavar="S", help="seconds until SIGKILL (default 30)")
    parser.add_argument("--kill", action="store_true", help="SIGKILL at once")
    parser.add_argument("--force", action="store_true", help="even while a dashboard controls it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")


def run(options: argparse.Namespace) -> int:
    from tui.commands.control import confirm, in_flight, print_json, take, tell
    from tui.feed.memory import memory_back
    from tui.feed.place import place_of
    from tui.runs.store import RunStore
    from tui.server.signals import server_tree
    from tui.server.stopping import kill, stop

    found = run_named(RunStore(), options.run)
    if not found.alive and not server_tree(found.server, found.keeper, found.tree):
        print(f"{found.name} does not run any more.")
        return 0
    if not options.json and (told := in_flight(found)):
        print(told)
    pid = found.server.pid if found.server else "–"
    if not confirm(f"Stop {found.profile or found.name} (process {pid}, {found.url})?", options.yes):
        return 2
    with contextlib.nullcontext() if options.force else take(found):
        back = memory_back(place_of(found), found)
        steps = kill(found, memory_back=back) if options.kill else stop(found, options.grace, memory_back=back)
        last = tell(steps, options.json)
    ok = last is not None and last.ok
    if options.json:
        print_json({"run": found.name, "stopped": ok, "text": last.text if last else ""})
    return 0 if ok else 1
