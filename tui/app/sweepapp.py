"""The application with a sweep on top: `specdeck sweep --watch`."""

from tui.app.main import SpecdeckApp, play, prepare
from tui.app.screens.sweep import SweepScreen
from tui.port import Feed


class SweepApp(SpecdeckApp):
    """Behind the sweep is the dashboard of the server that it runs now."""

    def __init__(
        self,
        feed: Feed,
        sweep: str,
        *,
        may_control: bool,
        ascii_only: bool = False,
        theme: str | None = None,
        mouse: bool = True,
    ) -> None:
        super().__init__(feed, ascii_only=ascii_only, theme=theme, mouse=mouse)
        self._sweep = sweep
        self.sweeps_read_only = not may_control  # the server on the dashboard may not be touched: it is the sweep's

    def on_mount(self) -> None:
        self.call_after_refresh(self._show_sweep)

    def _show_sweep(self) -> None:
        history = self._feed.history
        if history is not None:
            self.push_screen(SweepScreen(history, self._sweep, read_only=self.sweeps_read_only, leaves=True))


def run_sweep_app(feed: Feed, sweep: str, *, read_only: bool, mouse: bool, ascii_only: bool, theme: str | None) -> int:
    """The screen until the operator leaves it; the exit code. Raises the SpecdeckError that ended it."""
    prepare()
    return play(
        SweepApp(feed, sweep, may_control=not read_only, ascii_only=ascii_only, theme=theme, mouse=mouse), mouse
    )
