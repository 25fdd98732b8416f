"""The same screen in a browser on this machine: on loopback, behind a token, read-only unless --control is given."""

import argparse
import shlex
import sys

from tui.commands.arguments import add_place_arguments, add_screen_arguments
from tui.errors import SpecdeckError

PORT = 8017


class WebError(SpecdeckError):
    """The screen cannot be served."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"on 127.0.0.1 (default {PORT})")
    parser.add_argument("--control", action="store_true", help="let the browser start and stop servers")
    parser.add_argument("--run", metavar="RUN", help="show this run; by default the living one, else the latest")
    add_screen_arguments(parser)
    add_place_arguments(parser)


def run(options: argparse.Namespace) -> int:
    try:
        from tui.commands.webserver import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("textual_serve", "aiohttp", "aiohttp_jinja2", "jinja2"):
            raise
        raise WebError("The browser needs textual-serve: pip install 'specdeck[web]'.") from None
    if options.control and options.read_only:
        raise WebError("--control and --read-only contradict each other.")
    if not 1 <= options.port <= 65535:
        raise WebError(f"There is no port {options.port}: give one from 1 to 65535.")
    return serve(screen_command(options), options.port, control=options.control)


def screen_command(options: argparse.Namespace) -> str:
    """The shell command that each browser tab runs: the dashboard with the same options."""
    words = [sys.executable, "-m", "tui", "dashboard"]
    if not options.control:
        words.append("--read-only")
    words += ["--" + name.replace("_", "-") for name in ("ascii", "no_mouse", "rehearsal") if getattr(options, name)]
    for name in ("run", "theme", "speed", "seed", "sglang_version", "machine", "scenario"):
        value = getattr(options, name)
        if value is not None:
            words += ["--" + name.replace("_", "-"), str(value)]
    # exec: what the server ends when a tab is closed is then the dashboard, not a shell around it.
    return f"exec {shlex.join(words)}"
