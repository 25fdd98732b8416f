"""The dashboard on a simulated 8-GPU machine, with a story to play through. Nothing real is started."""

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tui.commands.arguments import add_screen_arguments
from tui.commands.dashboard import show

if TYPE_CHECKING:
    from tui.port import Feed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", default="story", metavar="NAME", help="what happens (--list names them)")
    parser.add_argument("--list", action="store_true", help="name the scenarios and leave")
    parser.add_argument("--play", action="store_true", help="let the story play by itself")
    parser.add_argument("--speed", type=float, default=60.0, metavar="N", help="simulated seconds per second (60)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="makes every number repeat")
    parser.add_argument("--sglang-version", metavar="V", help="which SGLang is rehearsed (default: the profile's)")
    parser.add_argument("--machine", metavar="8x97887MiB", help="the simulated GPUs")
    add_screen_arguments(parser)
    parser.set_defaults(rehearsal=True)


def run(options: argparse.Namespace) -> int:
    if options.list:
        from tui.rehearsal.scenarios import SCENARIOS

        width = max(map(len, SCENARIOS))
        print("\n".join(f"{name:<{width}}  {scenario.caption}" for name, scenario in SCENARIOS.items()))
        return 0
    from tui.app import refusal

    if (problem := refusal()) is not None:
        print(f"specdeck demo: {problem}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        return show(lambda: open_feed(options, stack), options)


def open_feed(options: argparse.Namespace, stack: ExitStack) -> "Feed":
    """The simulated machine; what it leaves is cleared when the stack is closed. Raises SpecdeckError."""
    from tui.commands.common import rehearsal_from
    from tui.commands.demostore import demo_store, kept
    from tui.feed.demo import DemoFeed

    store = stack.enter_context(demo_store())
    feed = DemoFeed(rehearsal_from(options, store), store, play=options.play)
    if not kept():
        feed.leaving = "The demo's server ends with it: nothing of it stays."
    return feed
