"""The dashboard. Importing this costs nothing: Textual comes with `run_app`."""

from tui.app.terminal import refusal
from tui.port import Feed

__all__ = ["Feed", "refusal", "run_app"]


def run_app(
    feed: Feed,
    *,
    read_only: bool = False,
    mouse: bool = True,
    ascii: bool = False,
    theme: str | None = None,
) -> int:
    """Show the dashboard until the operator leaves it; the exit code of the command.

    Call `refusal()` first: on a dumb terminal, or none, it says what to use instead. `theme`: "dark", "light",
    "contrast", "ansi" or a Textual theme; by default the terminal decides.
    """
    from tui.app.main import run

    return run(feed, read_only=read_only, mouse=mouse, ascii_only=ascii, theme=theme)
