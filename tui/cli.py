"""The command line. Only the module of the command that was asked for is imported: `--help` costs no screen."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from tui import __version__

# command -> (module in tui.commands, one line of help)
COMMANDS = {
    "dashboard": ("dashboard", "the screen; also what `specdeck` and `specdeck PROFILE` open"),
    "demo": ("demo", "the screen on a simulated 8-GPU machine; --play tells a story, --list names others"),
    "attach": ("attach", "watch a server that somebody else started: --url, --log or --pid"),
    "plan": ("plan", "will it fit? 0 fits, 1 does not, 2 cannot tell"),
    "doctor": ("doctor", "what happened in this log? 0 healthy, 1 a cause found, 2 cannot tell"),
    "status": ("status", "one snapshot, as text or --json: 0 runs or ended well, 1 failed, 2 unknown"),
    "run": ("run", "start a server without the screen: 0 started, 1 it failed, 2 not launched"),
    "stop": ("stop", "stop the server that specdeck started: 0 done, 1 failed, 2 refused"),
    "restart": ("restart", "stop, verify, launch again: 0 done, 1 failed, 2 refused"),
    "runs": ("runs", "the history: what was tried and what came of it"),
    "compare": ("compare", "runs side by side: knobs, memory, speed, whether speculation pays"),
    "replay": ("replay", "a recorded run in the same screen"),
    "bench": ("bench", "drive the running server with a fixed workload"),
    "sweep": ("sweep", "try knob values one after the other, unattended: 0 something was measured, 1 nothing"),
    "profile": ("profile", "import, export, check and list launch profiles"),
    "web": ("web", "the same screen in a browser, on loopback, read-only unless --control"),
}

DESCRIPTION = "Launch, watch and tune one SGLang server that decodes speculatively."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. 2 is a command line that makes no sense, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, rest = _split(arguments)
    if command is None:
        print(_overview(), end="")
        return 0
    if command == "version":
        print(f"specdeck {__version__}")
        return 0
    module = importlib.import_module(f"tui.commands.{COMMANDS[command][0]}")
    shown = "specdeck" if command == "dashboard" else f"specdeck {command}"
    parser = argparse.ArgumentParser(prog=shown, description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    options = parser.parse_args(rest)
    try:
        return int(module.run(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`); Python would complain once more while it exits.
        sys.stderr.close()
        return 0
    except _known_errors() as error:
        print(f"{shown}: {error}", file=sys.stderr)
        return 2


def _split(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The command and its arguments; a first word that is no command is the dashboard's profile."""
    if not arguments:
        return "dashboard", []
    first, *rest = arguments
    if first in ("-h", "--help", "help"):
        return None, []
    if first in ("-V", "--version"):
        return "version", []
    if first in COMMANDS:
        return first, rest
    return "dashboard", arguments


def _known_errors() -> type[Exception]:
    from tui.errors import SpecdeckError

    return SpecdeckError


def _overview() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: specdeck [PROFILE] [options]",
            "       specdeck COMMAND [options]        (specdeck COMMAND --help tells more)",
            "",
            DESCRIPTION,
            "",
            *rows,
            "",
            "--rehearsal puts dashboard, run, sweep and web on a simulated machine; nothing real is started.",
            "Numbers are exit codes; otherwise 0 is done. 2: a command line that makes no sense. 130: Ctrl-C.",
            "",
        ]
    )
