"""A recorded run in the same screen, as it was: faster, paused, stepped, sought. Nothing is started or stopped."""

import argparse
from typing import Any

from tui.errors import SpecdeckError


class ReplayError(SpecdeckError):
    """The screen cannot be shown here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="by the beginning of its name, its profile, or an exported file")
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="1 to 1000 times as fast")
    parser.add_argument("--at", metavar="PLACE", help="begin there: +12:30, 90%%, a phase, ready, crash, a mark's text")
    parser.add_argument("--list", action="store_true", help="the places to jump to, without the screen")
    parser.add_argument("--json", action="store_true", help="the snapshot at that place (by default the last one)")


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from tui.runs.archive import SUFFIX, bring_in
    from tui.runs.recording import recorded
    from tui.runs.store import RunStore

    store = RunStore()
    path = Path(options.run)
    if path.name.endswith(SUFFIX) and path.is_file():
        name = path.name.removesuffix(SUFFIX)
        found = store.load(name) if (store.folder / name).exists() else bring_in(path, store)
    else:
        found = store.find(options.run)
    if found.damaged is not None and not recorded(found):
        raise ReplayError(f"{found.name} is damaged, {found.damaged}: there is nothing to play.")
    if options.list or options.json:
        return _tell(found, options)
    from tui.app import refusal, run_app
    from tui.runs.replay import ReplayFeed

    refused = refusal()
    if refused is not None:
        raise ReplayError(refused)
    return int(run_app(ReplayFeed(found, options.speed, options.at)))


def _tell(found: Any, options: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict, replace

    from tui.runs.replay import Player
    from tui.runs.runtext import plain
    from tui.runs.timeline import moments

    player = Player(lambda: moments(found))
    if options.list:
        for mark in player.landmarks:
            minutes, seconds = divmod(mark.at - player.start, 60)
            print(f"+{int(minutes):02}:{seconds:04.1f}  {mark.kind:<6} {plain(mark.name)}")
        return 0
    if options.at is None:
        shot = player.final()
    else:
        player.seek(options.at)
        shot = player.snapshot()
    print(json.dumps(asdict(replace(shot, replay=True)), indent=1))
    return 0
