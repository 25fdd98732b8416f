"""Cautions and disagreements between sources: rows that are there only while there is something to say."""

from tui.app.text import escape, fit
from tui.app.widgets.canvas import Canvas, Line
from tui.snapshot import Snapshot


class Notices(Canvas):
    """At most `most` rows; the last one counts what is left."""

    def __init__(self) -> None:
        super().__init__(id="notices")
        self._texts: tuple[str, ...] = ()
        self._most = 2
        self._plan: tuple[str, str] | None = None

    def show(self, snapshot: Snapshot, most: int, plan: tuple[str, str] | None = None, hint: str = "") -> None:
        """Draw this snapshot's cautions. `plan`: style and words of a row before them; `hint`: one after them."""
        texts = tuple(caution.text for caution in snapshot.warnings) + snapshot.disagreements
        if snapshot.endpoint_detail and snapshot.endpoint not in ("", "ready", "starting"):
            texts = (f"server endpoint: {snapshot.endpoint_detail}", *texts)
        texts = (*texts, hint) if hint else texts
        self._texts, self._most, self._plan = texts, most, plan
        rows = min(len(texts), most) + (1 if plan else 0)
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows
            self.display = rows > 0
        self.redraw()

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        if self._plan is not None:
            style, words = self._plan
            mark = self.glyphs.cross if style == "bad" else self.glyphs.ghost
            lines.append([(f" {mark} ", style), (fit(escape(words, 400), width - 4), style)])
        for i, text in enumerate(self._texts[: self._most]):
            more = len(self._texts) - self._most
            tail = f"  (+{more} more: i)" if i == self._most - 1 and more > 0 else ""
            words = fit(escape(text), width - 4 - len(tail)) + tail
            lines.append([(f" {self.glyphs.warn} ", "warn"), (words, "warn")])
        return lines
