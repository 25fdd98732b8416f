"""Watch a server that somebody else started, by its log, its address or its process: everything but control."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tui.commands.arguments import add_screen_arguments
from tui.commands.dashboard import show

if TYPE_CHECKING:
    from tui.port import Feed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, metavar="F", help="its log file, there already or not yet")
    parser.add_argument("--url", metavar="U", help="its address, such as http://127.0.0.1:30000")
    parser.add_argument("--pid", type=int, metavar="N", help="its process; log and address are found by it")
    parser.add_argument("--api-key-env", metavar="NAME", help="the environment variable that holds its API key")
    parser.add_argument("--adopt", action="store_true", help="with --pid: take it over, to stop and restart it")
    parser.add_argument("--once", action="store_true", help="print one snapshot instead of opening the screen")
    parser.add_argument("--json", action="store_true", help="with --once: as JSON")
    add_screen_arguments(parser)


def run(options: argparse.Namespace) -> int:
    if options.once:
        from tui.commands.attachtarget import target_of
        from tui.commands.status import show_once
        from tui.feed.place import RealPlace
        from tui.runs.store import RunStore

        return show_once(target_of(options, RunStore()), RealPlace(), as_json=options.json)
    from tui.app import refusal
    from tui.errors import SpecdeckError

    if (problem := refusal()) is not None:
        raise SpecdeckError(problem)
    return show(lambda: open_feed(options), options)


def open_feed(options: argparse.Namespace) -> "Feed":
    """The server that the options name, watched. Raises SpecdeckError."""
    from tui.commands.attachtarget import target_of
    from tui.feed.live import LiveFeed
    from tui.feed.place import RealPlace
    from tui.runs.store import RunStore

    store = RunStore()
    return LiveFeed(RealPlace(), store, target_of(options, store), read_only=options.read_only)
