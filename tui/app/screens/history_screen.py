"""What the screens of the history share: telling of a run, comparing runs, replaying one, and changing something."""

from collections.abc import Awaitable, Sequence

from textual.screen import Screen

from tui.app.screens.compare import CompareScreen
from tui.app.screens.reader import Reader, plain_lines
from tui.app.text import escape
from tui.app.widgets.footer import Footer
from tui.port import History


class HistoryScreen(Screen[None]):
    """Asks the history in workers; what fails is a message in the last line."""

    def __init__(self, history: History, read_only: bool) -> None:
        super().__init__()
        self._history = history
        self._read_only = read_only

    def say(self, text: str, severity: str = "information", seconds: float | None = 6.0) -> None:
        """A message in the last line."""
        self.query_one(Footer).say(text, severity, seconds)

    def changed(self) -> None:
        """Something was changed: read it again."""
        raise NotImplementedError

    def explain(self, run: str) -> None:
        """Open all that is known of a run."""
        self.run_worker(self._explain(run), group="details", exclusive=True)

    def compare(self, runs: Sequence[str]) -> None:
        """Open the comparison of these runs."""
        self.run_worker(self._compare(runs), group="details", exclusive=True)

    def play(self, run: str) -> None:
        """Open the replay of a run."""
        from tui.app.screens.replay import ReplayDashboard

        self.app.push_screen(ReplayDashboard(self._history.replay(run), nested=True))

    def may_change(self) -> bool:
        """Whether control is allowed here; says so where it is not."""
        if self._read_only:
            self.say("This dashboard is read-only.", "warning")
        return not self._read_only

    def do(self, work: Awaitable[str | None], done: str, seconds: float = 6.0) -> None:
        """Change something: `work` gives a sentence when it failed, else `done` is said, for so many seconds."""
        self.run_worker(self._doing(work, done, seconds), group="change")

    async def _explain(self, run: str) -> None:
        try:
            text = await self._history.details(run)
        except Exception as error:
            self.say(str(error) or type(error).__name__, "error")
            return
        safe = "\n".join(escape(line) for line in text.split("\n"))
        self.app.push_screen(Reader(escape(run), plain_lines(safe)))

    async def _compare(self, runs: Sequence[str]) -> None:
        try:
            found = await self._history.compare(runs)
        except Exception as error:
            found = str(error) or type(error).__name__
        if isinstance(found, str):
            self.say(found, "warning", 10.0)
        else:
            self.app.push_screen(CompareScreen(found))

    async def _doing(self, work: Awaitable[str | None], done: str, seconds: float) -> None:
        try:
            problem = await work
        except Exception as error:
            problem = str(error) or type(error).__name__
        self.say(problem or done, "error" if problem else "information", seconds)
        self.changed()
