"""The verdict: what is wrong, why, on what evidence, and the change that mends it."""

from tui.app.glyphs import Glyphs
from tui.app.text import escape, fit, value, wrap
from tui.app.widgets.canvas import Canvas, Line, length, spread
from tui.facts import Fix, Verdict

_INDENT = 5  # of "fix  "
_LEAST_WHY = 3  # rows of reasons and evidence that a fix's own reason may not take


class VerdictCard(Canvas):
    """Above the log while there is a verdict that was not put aside."""

    def __init__(self) -> None:
        super().__init__(id="verdict")
        self._verdict: Verdict | None = None
        self._hidden: Verdict | None = None
        self._most_rows = 12
        self.display = False

    def show(self, verdict: Verdict | None, most_rows: int) -> None:
        """Draw this verdict in at most `most_rows` rows; one that was put aside stays away until it changes."""
        self._verdict, self._most_rows = verdict, most_rows
        shown = verdict is not None and verdict != self._hidden
        if verdict is not None and shown:
            rows = len(card(verdict, self.size.width or self.app.size.width, most_rows, self.glyphs, self.read_only))
            self.take_rows(rows)
        if self.display != shown:
            self.display = shown
        self.redraw()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that is on screen."""
        return self._verdict if self.display else None

    def put_aside(self) -> bool:
        """Hide this verdict; whether there was one to hide."""
        if not self.display:
            return False
        self._hidden = self._verdict
        self.display = False
        return True

    def bring_back(self) -> None:
        """Show what was put aside."""
        self._hidden = None
        self.show(self._verdict, self._most_rows)

    def lines(self, width: int, height: int) -> list[Line]:
        if self._verdict is None:
            return []
        return card(self._verdict, width, self._most_rows, self.glyphs, self.read_only)


def card(verdict: Verdict, width: int, most_rows: int, glyphs: Glyphs, read_only: bool = False) -> list[Line]:
    """Title, fixes, reasons, evidence; in that order of importance when rows are few, drawn in reading order."""
    inner = width - 4
    head = _head(verdict, width, glyphs, read_only)
    rows = max(1, most_rows) - 1
    fixes = [_fix(fix, inner, glyphs) for fix in verdict.fixes]
    if len(verdict.fixes) * 2 + _LEAST_WHY <= rows:
        fixes = [line for fix in verdict.fixes for line in _whole_fix(fix, inner, glyphs)]
    fixes = fixes[: max(1, rows)] if rows else []
    room = rows - len(fixes)
    why = wrap(escape(verdict.why), inner, room)
    room -= len(why)
    evidence = [f"log line {item.line}: {escape(item.text)}" for item in verdict.evidence][: max(0, room)]
    edge = (f"{glyphs.edge} ", "bad")
    body: list[Line] = [[edge, (text, "plain")] for text in why]
    body += [[edge, (fit(text, inner), "quiet")] for text in evidence]
    body += [[edge, *line] for line in fixes]
    return [head, *body]


def _head(verdict: Verdict, width: int, glyphs: Glyphs, read_only: bool) -> Line:
    keys: Line = [
        ("v", "key"),
        (" whole  ", "quiet"),
        ("y", "key"),
        (" copy  ", "quiet"),
        ("esc", "key"),
        (" hide ", "quiet"),
    ]
    if verdict.fixes and not read_only:
        keys = [("a", "key"), (" apply  ", "quiet"), *keys]
    sure = "" if verdict.confidence == "certain" else f"  ({escape(verdict.confidence)})"
    title = fit(escape(verdict.title), width - 6 - len(sure))
    sure = fit(sure, width - 4)
    left: Line = [(f"{glyphs.edge} ", "bad"), (f"{glyphs.cross} {title}", "bad"), (sure, "quiet")]
    while keys and length(left) + length(keys) + 1 > width:
        keys = keys[:-2] if len(keys) > 2 else []
    return spread(left, keys, width)


def _whole_fix(fix: Fix, inner: int, glyphs: Glyphs) -> list[Line]:
    """Its reason below it where it is too long to stand beside it."""
    line = _fix(fix, inner, glyphs)
    if not fix.why or line[-1][0].strip() == escape(fix.why):
        return [line]
    return [line[:2], [(" " * _INDENT + fit(escape(fix.why), inner - _INDENT), "quiet")]]


def _fix(fix: Fix, inner: int, glyphs: Glyphs) -> Line:
    change = f"{escape(fix.knob)} {value(fix.old)} {glyphs.arrow} {value(fix.new)}"
    line: Line = [("fix  ", "good"), (fit(change, inner - _INDENT), "strong")]
    room = inner - length(line) - 3
    if room >= 12 and fix.why:
        line.append(("   " + fit(escape(fix.why), room), "quiet"))
    return line


def as_text(verdict: Verdict) -> str:
    """The whole verdict, to be read at leisure or pasted."""
    lines = [f"{verdict.title} ({verdict.confidence})", "", verdict.why]
    if verdict.numbers:
        lines += ["", *(f"  {name} = {number:g}" for name, number in verdict.numbers.items())]
    if verdict.evidence:
        lines += ["", *(f"log line {item.line}: {item.text}" for item in verdict.evidence)]
    for fix in verdict.fixes:
        lines += ["", f"fix: {fix.knob} {value(fix.old)} -> {value(fix.new)}", f"     {fix.why}"]
    return "\n".join("\n".join(escape(part) for part in line.split("\n")) for line in lines)
