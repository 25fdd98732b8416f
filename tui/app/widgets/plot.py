"""Throughput over time, accept length below it, and marks where something happened."""

import math
from collections.abc import Sequence
from itertools import pairwise

from tui.app.axes import ceiling, clock_ticks, window, window_of_all
from tui.app.glyphs import Glyphs
from tui.app.plot_adapter import GAP_STEPS, curve
from tui.app.text import count, escape, fit, number, pad, percent, wrap
from tui.app.widgets.canvas import Canvas, Line, length, spread
from tui.frozen import frozen
from tui.snapshot import Phase, PlotMark, Point, Snapshot, State

LABELS = 6  # columns of the y axis
ACCEPT_FROM = 9  # rows from which the accept length gets its own lane
ACCEPT_ROWS = 3
DOTS = 2  # columns of dots in a character of braille


@frozen(kw_only=False)
class Series:
    """What may be drawn: a field of `Point`, times `scale`, from `floor` up to `top` or a round number of at least
    `least`."""

    name: str
    field: str
    style: str
    title: str
    floor: float = 0.0
    top: float | None = None
    least: float = 0.0
    scale: float = 1.0

    def points(self, points: Sequence[Point]) -> list[tuple[float, float]]:
        """(time, value) where the value is known."""
        return [(p.at, value * self.scale) for p in points if (value := getattr(p, self.field)) is not None]

    def limits(self, most: float) -> tuple[float, float]:
        """(lowest, highest) of the axis for values up to `most`."""
        if self.top is not None:
            return self.floor, self.top
        if self.floor:
            return self.floor, max(self.least, math.ceil(most))
        return self.floor, max(self.least, ceiling(most))


ALL = 0.0  # a span: everything there is
SPANS = ((60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (ALL, "all"))
SERIES = (
    Series("tok/s", "gen_tok_s", "speed", "Throughput"),
    Series("accept length", "accept_len", "accept", "Accept length", floor=1.0, least=2.0),
    Series("KV pool", "token_usage", "kv-used", "KV pool used", top=100.0, scale=100.0),
    Series("queue", "queue", "draft", "Queue", least=4.0),
)


class Plot(Canvas):
    """Built again only when there is something for another column of it, or its size, span or series changed."""

    def __init__(self) -> None:
        super().__init__(id="plot")
        self._snapshot: Snapshot | None = None
        self._span = 1
        self._series = SERIES[0]
        self._key: object = None
        self._built: list[Line] = []

    def show(self, snapshot: Snapshot) -> None:
        """Draw the points of this snapshot."""
        self._snapshot = snapshot
        self.redraw()

    def next_span(self) -> str:
        """Show the next longer time, or the shortest again; its name."""
        self._span = (self._span + 1) % len(SPANS)
        self.redraw()
        return SPANS[self._span][1]

    def choose(self, index: int) -> str:
        """Draw another of SERIES; its name."""
        self._series = SERIES[index]
        self.redraw()
        return self._series.name

    def lines(self, width: int, height: int) -> list[Line]:
        snapshot = self._snapshot
        if snapshot is None or height < 2:
            return []
        series, (span, name) = self._series, SPANS[self._span]
        head = title(snapshot, name, width, series)
        worth = economy_lines(snapshot, width, height)
        points = snapshot.points
        edges = window(snapshot.at, span) if span else window_of_all(points[0].at if points else None, snapshot.at)
        baseline = None if snapshot.baseline_tok_s is None else round(snapshot.baseline_tok_s, 1)
        rows = height - 1 - len(worth)
        ends = (points[0].at, column_of(points[-1].at, edges, width)) if points else snapshot.state
        key = (width, rows, edges, series, ends, snapshot.marks, baseline, self.glyphs.plot_marker)
        if key != self._key:
            self._key = key
            self._built = chart(snapshot, edges, (width, rows), self.glyphs, series)
        return [head, *self._built, *worth]


def column_of(at: float, edges: tuple[float, float], width: int) -> int:
    """Which column of dots a time is drawn in: two times in one are one dot, or a stroke up and down."""
    left, right = edges
    return int((at - left) / (right - left) * (width - LABELS - 1) * DOTS)


def economy_lines(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """Whether speculation pays, below the plot where there is room for it."""
    most = 2 if height >= 10 else 1 if height >= 6 else 0
    if not snapshot.economy or not most:
        return []
    return [[(" ", "plain"), (row, "accept")] for row in wrap(escape(snapshot.economy), width - 3, most)]


def title(snapshot: Snapshot, span: str, width: int, series: Series = SERIES[0]) -> Line:
    """ "throughput 89.5 tok/s  accept length 2.31 … 10 min"."""
    left: Line = [(f" {series.title}", "title"), ("  ", "plain")]
    if series is not SERIES[0]:
        return spread(left + _now(snapshot, series), [(span + " ", "quiet")], width)
    left += [(number(snapshot.gen_tok_s), "speed"), (" tok/s", "quiet")]
    if snapshot.accept_len is not None:
        left += [("  accept length ", "quiet"), (number(snapshot.accept_len, 2), "accept"), (" tokens", "quiet")]
    wide: Line = [*left]
    if snapshot.baseline_tok_s is not None:
        wide += [("  baseline ", "quiet"), (number(snapshot.baseline_tok_s), "changed")]
    if snapshot.kv_tokens is not None:
        wide += [("  of ", "quiet"), (count(snapshot.kv_tokens), "plain"), (" KV tokens", "quiet")]
    right: Line = [(span + " ", "quiet")]
    return spread(wide if length(wide) + len(span) + 3 <= width else left, right, width)


def _now(snapshot: Snapshot, series: Series) -> Line:
    """The newest value of a series, in its unit."""
    match series.field:
        case "accept_len":
            return [(number(snapshot.accept_len, 2), series.style), (" tokens for each step", "quiet")]
        case "token_usage":
            tokens = f" of {count(snapshot.kv_tokens)} tokens" if snapshot.kv_tokens is not None else ""
            return [(percent(snapshot.token_usage), series.style), (tokens, "quiet")]
        case _:
            return [(count(snapshot.queue), series.style), (f" wait, {count(snapshot.running)} run", "quiet")]


def chart(
    snapshot: Snapshot,
    edges: tuple[float, float],
    size: tuple[int, int],
    glyphs: Glyphs,
    series: Series = SERIES[0],
) -> list[Line]:
    """The lanes and the time axis, exactly as many rows as `size` says."""
    width, rows = size
    columns = width - LABELS - 1
    if columns < 8 or rows < 2:
        return []
    points = [point for point in snapshot.points if edges[0] <= point.at <= edges[1]]
    values = series.points(points)
    if not values:
        return _nothing(snapshot, width, rows)
    first = series is SERIES[0]
    accepts = SERIES[1].points(points) if first and rows - 1 >= ACCEPT_FROM else []
    accept_rows = ACCEPT_ROWS if accepts else 0
    marks = mark_columns(snapshot.marks, edges, columns)
    baseline = snapshot.baseline_tok_s if first else None
    limits = series.limits(max([value for _, value in values] + ([baseline] if baseline is not None else [])))
    lines = _lane(values, edges, (columns, rows - 1 - accept_rows), limits, series.style, glyphs, marks, baseline)
    if accepts:
        limits = SERIES[1].limits(max(value for _, value in accepts))
        lines += _lane(accepts, edges, (columns, accept_rows), limits, "accept", glyphs, [])
    return [*lines, _time_axis(edges, columns, marks, glyphs)]


def mark_columns(marks: Sequence[PlotMark], edges: tuple[float, float], columns: int) -> list[tuple[int, str]]:
    """(column, text) of the marks inside the window."""
    left, right = edges
    return [
        (min(columns - 1, int((mark.at - left) / (right - left) * columns)), escape(mark.text, 40))
        for mark in marks
        if left <= mark.at <= right
    ]


def _lane(
    points: list[tuple[float, float]],
    edges: tuple[float, float],
    size: tuple[int, int],
    limits: tuple[float, float],
    style: str,
    glyphs: Glyphs,
    marks: list[tuple[int, str]],
    baseline: float | None = None,
) -> list[Line]:
    rows = size[1]
    low, high = limits
    level = None if baseline is None else min(rows - 1, max(0, int((high - baseline) / (high - low) * rows)))
    drawn = curve(points, size, edges, limits, glyphs.plot_marker, gap=_gap(points), fill=limits[0] == 0)
    lines: list[Line] = []
    for row, text in enumerate(drawn):
        label = ""
        if row == 0:
            label = f"{limits[1]:g}"
        elif row == rows - 1:
            label = f"{limits[0]:g}"
        elif rows >= 7 and rows % 2 == 1 and row == rows // 2:
            label = f"{(limits[0] + limits[1]) / 2:g}"
        cells = _with_marks(text, style, glyphs, marks)
        if row == level:
            label = label or "base"
            cells = [(glyphs.rule, "changed") if i % 2 else cell for i, cell in enumerate(cells)]
        lines.append([(pad(label, LABELS, right=True), "quiet"), (" ", "plain"), *_runs(cells)])
    return lines


def _with_marks(text: str, style: str, glyphs: Glyphs, marks: list[tuple[int, str]]) -> list[tuple[str, str]]:
    """Marks stand behind the curve: a dotted line on empty cells, named on the time axis."""
    blank = ("\u2800", " ")
    cells = [(" " if char in blank else char, style) for char in text]
    for column, _ in marks:
        if cells[column][0] == " ":
            cells[column] = (glyphs.mark, "quiet")
    return cells


def _gap(points: list[tuple[float, float]]) -> float | None:
    """Seconds without a point that count as a hole."""
    if len(points) < 3:
        return None
    steps = sorted(b[0] - a[0] for a, b in pairwise(points))
    return max(5.0, GAP_STEPS * steps[len(steps) // 2])


def _time_axis(edges: tuple[float, float], columns: int, marks: list[tuple[int, str]], glyphs: Glyphs) -> Line:
    """Round times; where a mark stands, its name instead, on the side that has room for it."""
    cells = [(" ", "quiet")] * columns
    taken: list[tuple[int, int]] = []
    for position, (column, name) in enumerate(marks):
        end = marks[position + 1][0] if position + 1 < len(marks) else columns
        before = taken[-1][1] if taken else 0
        start, words = column, fit(f"{glyphs.mark}{name}", end - column, "")
        if len(words) <= len(name) <= column - before:
            start, words = column - len(name), f"{name}{glyphs.mark}"
        cells[start : start + len(words)] = [(char, "plain") for char in words]
        taken.append((start - 1, start + len(words) + 1))
    for column, name in clock_ticks(*edges, columns):
        if all(column + len(name) <= start or column >= end for start, end in taken):
            cells[column : column + len(name)] = [(char, "quiet") for char in name]
    return [(" " * (LABELS + 1), "plain"), *_runs(cells[:columns])]


def _runs(cells: list[tuple[str, str]]) -> Line:
    """Cells as runs; blanks take any colour."""
    runs: Line = []
    for char, style in cells:
        if runs and (runs[-1][1] == style or char == " "):
            runs[-1] = (runs[-1][0] + char, runs[-1][1])
        else:
            runs.append((char, style))
    return runs


def _nothing(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """An empty plot says why, and what to do."""
    progress = snapshot.progress
    if snapshot.opening:
        words = "Looking at this machine: its GPUs, its servers, their logs."
    elif snapshot.ready_at is not None and snapshot.exited_at is None:
        words = "Ready. Nobody has asked for tokens yet."
    elif snapshot.state is State.STARTING:
        words = "Tokens per second appear here as soon as the server decodes."
    elif snapshot.replay and progress.phase is Phase.NONE:
        words = "The recording has not come to a launch yet. space plays it, > faster; t goes to a time or a place."
    elif progress.phase is Phase.NONE:
        words = (
            "No server is running here. L launches a profile; "
            "specdeck attach watches a server that somebody else started."
        )
    else:
        words = "No tokens were decoded in this time. z shows a longer one."
    lines: list[Line] = [[("  ", "plain"), (line, "quiet")] for line in wrap(words, min(60, width - 4))]
    above = max(0, (rows - len(lines)) // 2)
    return [*([[]] * above), *lines, *([[]] * rows)][:rows]
