"""The last line: the keys that matter now, or a message for a while."""

from collections.abc import Sequence

from textual import events
from textual.timer import Timer

from tui.app.text import escape, fit
from tui.app.widgets.canvas import Canvas, Line, length

SEVERITY = {"information": "strong", "warning": "warn", "error": "bad"}


class Footer(Canvas):
    """Keys as (key, words, action); those that do not fit are left out from the end. A click runs the action."""

    def __init__(self) -> None:
        super().__init__(id="footer")
        self._keys: tuple[tuple[str, str, str], ...] = ()
        self._message: tuple[str, str] | None = None
        self._timer: Timer | None = None

    def show(self, keys: Sequence[tuple[str, str, str]]) -> None:
        """Draw these keys."""
        self._keys = tuple(keys)
        self.redraw()

    def say(self, text: str, severity: str = "information", seconds: float | None = 6.0) -> None:
        """A message instead of the keys, for `seconds`; None: until the next one or `hush`."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._message = (escape(text), SEVERITY.get(severity, "strong"))
        if seconds is not None:
            self._timer = self.set_timer(seconds, self.hush)
        self.redraw()

    def hush(self) -> None:
        """Back to the keys."""
        self._message = None
        self.redraw()

    @property
    def message(self) -> str:
        """What is being said, or nothing."""
        return self._message[0] if self._message else ""

    def lines(self, width: int, height: int) -> list[Line]:
        if self._message:
            text, style = self._message
            return [[(" ", "plain"), (fit(text, width - 2), style)]]
        line: Line = [(" ", "plain")]
        for key, words, _ in self._keys:
            entry: Line = [(key, "key"), (f" {words}", "quiet"), ("  ", "plain")]
            if length(line) + length(entry) - 2 > width:
                break
            line += entry
        return [line]

    async def on_click(self, event: events.Click) -> None:
        x = 1
        for key, words, action in self._keys:
            end = x + len(key) + 1 + len(words)
            if x <= event.x < end and not self._message:
                await self.screen.run_action(action)
                return
            x = end + 2
