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

    def show(self, snapshot: Snapshot, most: int) -> None:
        """Draw this snapshot's cautions."""
        texts = tuple(caution.text for caution in snapshot.warnings) + snapshot.disagreements
        if snapshot.endpoint_detail and snapshot.endpoint not in ("", "ready", "starting"):
            texts = (f"server endpoint: {snapshot.endpoint_detail}", *texts)
        self._texts, self._most = texts, most
        rows = min(len(texts), most)
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows
            self.display = rows > 0
        self.redraw()

    def lines(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        for i, text in enumerate(self._texts[: self._most]):
            more = len(self._texts) - self._most
            tail = f"  (+{more} more: i)" if i == self._most - 1 and more > 0 else ""
            words = fit(escape(text), width - 4 - len(tail)) + tail
            lines.append([(f" {self.glyphs.warn} ", "warn"), (words, "warn")])
        return lines
