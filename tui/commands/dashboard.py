"""The dashboard: launch, watch and tune one server. Leaving it leaves the server running."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.commands.arguments import add_place_arguments, add_screen_arguments

if TYPE_CHECKING:
    from tui.feed.place import RealPlace
    from tui.port import Feed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help="launch this profile when nothing runs yet")
    parser.add_argument("--run", metavar="RUN", help="show this run; by default the living one, else the latest")
    add_screen_arguments(parser)
    add_place_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from tui.app import refusal

    if (problem := refusal()) is not None:
        print(f"specdeck: {problem}", file=sys.stderr)
        return 2
    return show(lambda: open_feed(options), options)


def open_feed(options: argparse.Namespace) -> "Feed":
    """What the options name, watched. Raises SpecdeckError."""
    from tui.commands.common import place_from
    from tui.feed.coach import Coach
    from tui.feed.live import LiveFeed
    from tui.feed.place import Place, RealPlace, place_of, rehearsal_place
    from tui.feed.targets import Target, of_run
    from tui.rehearsal.machine import Settings
    from tui.runs.store import RunStore

    store = RunStore()
    place: Place = place_from(options, store)
    target: Target | None = None
    chosen = store.find(options.run) if options.run else next(iter(store.active()), None)
    if chosen is not None:
        target, place = of_run(chosen), place_of(chosen)
    elif isinstance(place, RealPlace) and options.profile is None and not has_gpu(place):
        # Nothing to watch and nothing to launch on: the rehearsal shows what there would be to see.
        place = rehearsal_place(store, Settings(speed=options.speed, seed=options.seed))
    feed = LiveFeed(place, store, target, read_only=options.read_only)
    if options.profile is not None:
        if chosen is not None:
            feed.greeting = f"{chosen.name} runs already and is shown; {options.profile} was not launched."
        else:
            feed.launch_first = options.profile
    elif place.rehearsal and not options.read_only:
        feed.coach = Coach()
    return feed


def has_gpu(place: "RealPlace") -> bool:
    """Whether the driver shows a GPU."""
    import time

    return bool(place.sample(time.time(), (), host=False).gpus)


def show(open_feed: "Callable[[], Feed]", options: argparse.Namespace) -> int:
    """The screen for a feed that is made when the screen is there; then a word about what goes on without it.

    Raises what `open_feed` raises.
    """
    from tui.app import open_app

    return open_app(
        open_feed,
        read_only=options.read_only,
        mouse=not options.no_mouse,
        ascii=options.ascii,
        theme=options.theme,
    )
