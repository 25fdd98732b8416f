"""The last rows: the keys that matter now, or a message for a while, and above them what a story tells."""

from collections.abc import Sequence

from textual import events
from textual.timer import Timer

from tui.app.text import escape, wrap
from tui.app.widgets.canvas import Canvas, Line, length

SEVERITY = {"information": "strong", "warning": "warn", "error": "bad"}
CAPTION_ROWS = 2  # a caption takes as many even when it is shorter: nothing above it moves while a story is told


class Footer(Canvas):
    """Keys as (key, words, action); those that do not fit are left out from the end. A click runs the action.

    A message that is longer than a row takes as many rows as it needs, up to a third of the screen.
    """

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
        self._fit_height()
        self.redraw()

    def hush(self) -> None:
        """Back to the keys."""
        self._message = None
        self._fit_height()
        self.redraw()

    @property
    def message(self) -> str:
        """What is being said, or nothing."""
        return self._message[0] if self._message else ""

    def on_resize(self) -> None:
        self._fit_height()
        super().on_resize()

    def _fit_height(self) -> None:
        self.take_rows(len(self.lines(self.size.width or self.app.size.width, 0)))

    def lines(self, width: int, height: int) -> list[Line]:
        if self._message:
            text, style = self._message
            rows = wrap(text, width - 2, max(2, self.app.size.height // 3)) or [""]
            return [[(" ", "plain"), (row, style)] for row in rows]
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


class Caption(Canvas):
    """What the demo's story, or a hint, says now; no rows where nothing is told, or it was put aside."""

    def __init__(self) -> None:
        super().__init__(id="caption")
        self._text = ""
        self._aside = False
        self.display = False

    def show(self, text: str) -> None:
        """Draw this caption; nothing takes the rows away."""
        if text != self._text:
            self._text = text
            self._fit_height()
        if self.display != (shown := bool(text) and not self._aside):
            self.display = shown
        self.redraw()

    def put_aside(self) -> bool:
        """Show no caption any more; whether there was one."""
        if not self.display:
            return False
        self._aside, self.display = True, False
        return True

    def on_resize(self) -> None:
        self._fit_height()
        super().on_resize()

    def _fit_height(self) -> None:
        self.take_rows(max(CAPTION_ROWS, len(self.lines(self.size.width or self.app.size.width, 0))))

    def lines(self, width: int, height: int) -> list[Line]:
        rows = wrap(escape(self._text), width - 4, max(CAPTION_ROWS, self.app.size.height // 4)) or [""]
        return [[(f" {self.glyphs.edge} ", "changed"), (row, "title")] for row in rows]
