"""Options that several commands have. Nothing else is imported here: a screen should not wait for it."""

import argparse


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that put a command on the rehearsal machine."""
    group = parser.add_argument_group("rehearsal (a simulated machine: nothing real is started)")
    group.add_argument("--rehearsal", action="store_true", help="run on the simulated machine")
    group.add_argument("--speed", type=float, default=60.0, metavar="N", help="simulated seconds per second (60)")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="makes every number repeat")
    group.add_argument("--sglang-version", metavar="V", help="which SGLang is rehearsed (default: the profile's)")
    group.add_argument("--machine", metavar="8x97887MiB", help="the simulated GPUs")
    group.add_argument("--scenario", default="story", metavar="NAME", help="what happens there; see `specdeck demo`")


def add_screen_arguments(parser: argparse.ArgumentParser) -> None:
    """How the screen looks and what it may do."""
    group = parser.add_argument_group("screen")
    group.add_argument("--read-only", action="store_true", help="watch only: no key starts or stops anything")
    group.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    group.add_argument("--ascii", action="store_true", help="letters instead of block glyphs")
    group.add_argument("--theme", metavar="NAME", help="dark, light, contrast, ansi, or one of Textual's")
