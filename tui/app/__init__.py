"""The dashboard. Importing this costs nothing: Textual comes with `run_app`."""

import gc
from collections.abc import Callable

from tui.app.terminal import refusal
from tui.port import Feed

__all__ = ["Feed", "open_app", "refusal", "run_app"]


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
    gc.disable()  # until the app stands: a start makes no garbage
    from tui.app.main import run

    return run(feed, read_only=read_only, mouse=mouse, ascii_only=ascii, theme=theme)


def open_app(
    open_feed: Callable[[], Feed],
    *,
    read_only: bool = False,
    mouse: bool = True,
    ascii: bool = False,
    theme: str | None = None,
) -> int:
    """As `run_app`, with a feed that is made on a worker thread when the first frame is seen.

    Raises what `open_feed` raises, when the screen is gone again.
    """
    gc.disable()
    from tui.app.main import run
    from tui.app.opening import OpeningFeed

    return run(OpeningFeed(), read_only=read_only, mouse=mouse, ascii_only=ascii, theme=theme, open_feed=open_feed)
