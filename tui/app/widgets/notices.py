"""The plan of pending knobs, cautions, disagreements between sources: there only while there is something to say."""

from tui.app.text import escape, fit, wrap
from tui.app.widgets.canvas import Canvas, Line
from tui.snapshot import Snapshot

PLAN_ROWS, TEXT_ROWS = 3, 2  # the most that one of them takes


class Notices(Canvas):
    """The plan, then at most `most` texts, each whole; the last one tells how many are left out."""

    def __init__(self) -> None:
        super().__init__(id="notices")
        self._texts: tuple[str, ...] = ()
        self._most = 2
        self._plan: tuple[str, str] | None = None

    def show(self, snapshot: Snapshot, most: int, plan: tuple[str, str] | None = None, hint: str = "") -> None:
        """Draw this snapshot's cautions. `plan`: style and words of what comes before them; `hint`: one after them."""
        texts = notices(snapshot)
        self._texts, self._most, self._plan = (*texts, hint) if hint else texts, most, plan
        self._fit_height()
        self.redraw()

    def on_resize(self) -> None:
        self._fit_height()
        super().on_resize()

    def _fit_height(self) -> None:
        rows = len(self.lines(self.size.width or self.app.size.width, 0))
        self.take_rows(rows)
        self.display = rows > 0

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        if self._plan is not None:
            style, words = self._plan
            mark = self.glyphs.cross if style == "bad" else self.glyphs.ghost
            lines += _marked(mark, style, escape(words), width, PLAN_ROWS)
        for i, text in enumerate(self._texts[: self._most]):
            more = len(self._texts) - self._most
            tail = f" (+{more} more: i)" if i == self._most - 1 and more > 0 else ""
            room = (width - 4) * TEXT_ROWS - len(tail) - 8  # words do not fill their rows
            lines += _marked(self.glyphs.warn, "warn", fit(escape(text), room) + tail, width, TEXT_ROWS)
        return lines


def notices(snapshot: Snapshot) -> tuple[str, ...]:
    """Everything that there is to look at, in the order of the screen."""
    texts = tuple(caution.text for caution in snapshot.warnings) + snapshot.disagreements
    if snapshot.endpoint_detail and snapshot.endpoint not in ("", "ready", "starting"):
        return (f"server endpoint: {snapshot.endpoint_detail}", *texts)
    return texts


def _marked(mark: str, style: str, words: str, width: int, most: int) -> list[Line]:
    """Words on rows, the first of them behind a mark."""
    rows = wrap(words, width - 4, most)
    return [[(f" {mark} " if i == 0 else "   ", style), (row, style)] for i, row in enumerate(rows)]
