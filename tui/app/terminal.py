"""What the terminal can do, asked of the environment, which is only read, never changed."""

import os
import sys
import termios
from collections.abc import Mapping

# Terminals whose name promises no more than 16 colours. COLORTERM may promise more.
SIXTEEN = ("screen", "linux", "xterm", "vt100", "vt220", "ansi", "rxvt")
# The Linux console has room for 512 glyphs; braille is not among them.
FEW_GLYPHS = ("linux", "vt100", "vt220", "ansi")


def refusal(
    environ: Mapping[str, str] | None = None, stdin_tty: bool | None = None, stdout_tty: bool | None = None
) -> str | None:
    """Why the dashboard cannot be shown here, as a sentence, or None when it can."""
    environ = os.environ if environ is None else environ
    if environ.get("TEXTUAL_DRIVER"):
        return None  # a browser shows it, through pipes: `specdeck web`
    stdin_tty = sys.stdin is not None and sys.stdin.isatty() if stdin_tty is None else stdin_tty
    # Textual draws on stderr's terminal, so stdout may be a pipe, but a screen without a keyboard is a trap.
    stdout_tty = sys.__stderr__ is not None and sys.__stderr__.isatty() if stdout_tty is None else stdout_tty
    if environ.get("TERM", "") in ("dumb", "unknown"):
        return (
            "This terminal (TERM=dumb) cannot show the dashboard: use `specdeck status`, or `specdeck status --json`."
        )
    if not stdin_tty or not stdout_tty:
        return "The dashboard needs a terminal and there is none here: use `specdeck status`, or `ssh -t` to get one."
    return None


def no_colour(environ: Mapping[str, str]) -> bool:
    """Whether the operator asked for no colour. Set but empty counts too, as it does for Textual."""
    return "NO_COLOR" in environ


def sixteen_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal promises no more than 16 colours."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    return environ.get("TERM", "") in SIXTEEN


def few_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether the terminal cannot be trusted with more than ASCII."""
    return environ.get("TERM", "") in FEW_GLYPHS


def choose_theme(asked: str | None, environ: Mapping[str, str]) -> str:
    """The theme to begin with. "dark", "light", "contrast" and "ansi" are short for ours."""
    if no_colour(environ):
        return "specdeck-ansi"
    if asked:
        return f"specdeck-{asked}" if asked in ("dark", "light", "contrast", "ansi") else asked
    return "specdeck-ansi" if sixteen_colours(environ) else "specdeck-dark"


def alive() -> bool:
    """Whether the terminal is still there. After a hang-up every ioctl on it fails with EIO."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (termios.error, OSError, ValueError):
        return False
    return True
