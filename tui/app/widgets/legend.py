"""What the glyphs of the bars mean, with the numbers of the tightest GPU."""

from tui.app.bars import free_gib, kv_fraction, segment_gib, tightest
from tui.app.glyphs import Glyphs
from tui.app.text import DASH, escape, fit, gib, percent
from tui.app.widgets.canvas import Canvas, Line, length, spread
from tui.app.widgets.gpu_bars import label
from tui.snapshot import GpuBar, Snapshot

# kind of cell, long name, short name
ENTRIES = (
    ("base", "base", "base"),
    ("draft", "draft", "draft"),
    ("graphs", "graphs", "graph"),
    ("kv-used", "KV", "KV"),
    ("other", "other", "oth"),
    ("foreign", "foreign", "fgn"),
    ("free", "free", "free"),
)


class Legend(Canvas):
    """One row under the bars."""

    def __init__(self) -> None:
        super().__init__(id="legend")
        self._bar: GpuBar | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Draw the numbers of this snapshot's tightest GPU."""
        bar = tightest(snapshot.gpus)
        if bar != self._bar or not self._lines:
            self._bar = bar
            self.redraw()

    def lines(self, width: int, height: int) -> list[Line]:
        return [legend(self._bar, width, self.glyphs)]


def legend(bar: GpuBar | None, width: int, glyphs: Glyphs) -> Line:
    """The most telling form that fits in `width` cells; the last one always does."""
    forms = (
        _form(bar, glyphs, names=1, digits=2, gap="  ", used=True, budget=True),
        _form(bar, glyphs, names=1, digits=2, gap=" ", used=True, budget=True),
        _form(bar, glyphs, names=1, digits=1, gap=" ", used=True, budget=True),
        _form(bar, glyphs, names=2, digits=1, gap=" ", used=True, budget=False),
        _form(bar, glyphs, names=2, digits=1, gap=" ", used=False, budget=False),
    )
    return next((form for form in forms if length(form) <= width), forms[-1])


def _form(bar: GpuBar | None, glyphs: Glyphs, names: int, digits: int, gap: str, used: bool, budget: bool) -> Line:
    line: Line = [(" ", "plain")]
    for entry in ENTRIES:
        kind = entry[0]
        if kind == "foreign" and names == 2 and bar is not None and not segment_gib(bar, "foreign"):
            continue
        if length(line) > 1:
            line.append((gap, "plain"))
        segment = kind if kind != "kv-used" else "kv"
        line.append((glyphs.segments[kind], kind))
        if kind == "kv-used" and names == 1:
            line.append((glyphs.segments["kv"], "kv"))
        line += [(f" {entry[names]} " if names == 1 else f"{entry[names]} ", "quiet")]
        line.append((gib(segment_gib(bar, segment), digits) if bar else DASH, "plain"))
        if kind == "kv-used" and used and bar is not None and (full := kv_fraction(bar)) is not None:
            line.append((f" ({percent(full)} full)" if names == 1 else f" ({percent(full)})", "quiet"))
    line.append((" GiB", "quiet"))
    if budget and bar is not None and bar.budget_gib is not None:
        line += [(gap, "plain"), (glyphs.tick, "tick"), (f" budget {gib(bar.budget_gib, digits)}", "quiet")]
    return line


class GpuTitle(Canvas):
    """The row above the bars on a screen that has room for it."""

    def __init__(self) -> None:
        super().__init__(id="gpu-title")
        self._snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Draw the machine of this snapshot."""
        self._snapshot = snapshot
        self.redraw()

    def lines(self, width: int, height: int) -> list[Line]:
        return [gpu_title(self._snapshot, width)] if self._snapshot else []


def gpu_title(snapshot: Snapshot, width: int) -> Line:
    """ "GPU memory  8 × NVIDIA H20, 95.59 GiB each … tightest GPU3, 8.20 GiB free"."""
    left: Line = [(" GPU memory", "title")]
    bars = snapshot.gpus
    if not bars:
        return left
    names = {bar.name for bar in bars}
    name = escape(bars[0].name, 40) if len(names) == 1 else f"GPUs of {len(names)} kinds"
    totals = {round(bar.total_gib, 2) for bar in bars if bar.total_gib is not None}
    each = f", {totals.pop():.2f} GiB{' each' if len(bars) > 1 else ''}" if len(totals) == 1 else ""
    left.append((f"  {len(bars)} × {name}{each}" if len(bars) > 1 else f"  {name}{each}", "quiet"))
    tight = tightest(bars)
    right: Line = []
    if tight is not None and len(bars) > 1:
        if tight.tight:
            right = [(f"tightest {label(tight)}, {gib(free_gib(tight))} GiB free ", "quiet")]
        elif len({gib(free_gib(bar)) for bar in bars}) == 1:
            right = [(f"{gib(free_gib(tight))} GiB free on each ", "quiet")]
    if snapshot.fraction is not None and length(left) + length(right) + 34 < width:
        left.append((f"  mem-fraction-static {snapshot.fraction:g}", "quiet"))
    if length(left) > width:
        return [(fit(" GPU memory" + left[1][0], width), "title")]
    return spread(left, right, width)
