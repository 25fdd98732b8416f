"""Throughput over time, accept length below it, and marks where something happened."""

import math
from collections.abc import Sequence
from itertools import pairwise

from tui.app.axes import ceiling, clock_ticks, window
from tui.app.glyphs import Glyphs
from tui.app.plot_adapter import GAP_STEPS, curve
from tui.app.text import count, escape, fit, number, pad, wrap
from tui.app.widgets.canvas import Canvas, Line, spread
from tui.snapshot import Phase, PlotMark, Snapshot, State

SPANS = ((300.0, "5 min"), (900.0, "15 min"), (3600.0, "1 h"), (21600.0, "6 h"), (86400.0, "24 h"))
LABELS = 6  # columns of the y axis
ACCEPT_FROM = 9  # rows from which the accept length gets its own lane
ACCEPT_ROWS = 3


class Plot(Canvas):
    """Built again only when its data, size or span changed."""

    def __init__(self) -> None:
        super().__init__(id="plot")
        self._snapshot: Snapshot | None = None
        self._span = 0
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

    def lines(self, width: int, height: int) -> list[Line]:
        snapshot = self._snapshot
        if snapshot is None or height < 2:
            return []
        head = title(snapshot, SPANS[self._span][1], width)
        points = snapshot.points
        newest = points[-1] if points else None
        edges = window(snapshot.at, SPANS[self._span][0])
        key = (width, height, edges, len(points), newest, snapshot.marks, self.glyphs.plot_marker)
        if key != self._key:
            self._key = key
            self._built = chart(snapshot, edges, (width, height - 1), self.glyphs)
        return [head, *self._built]


def title(snapshot: Snapshot, span: str, width: int) -> Line:
    """ "throughput 89.5 tok/s  accept length 2.31 … 5 min"."""
    left: Line = [(" Throughput", "title"), ("  ", "plain")]
    left += [(number(snapshot.gen_tok_s), "speed"), (" tok/s", "quiet")]
    if snapshot.accept_len is not None:
        left += [("  accept length ", "quiet"), (number(snapshot.accept_len, 2), "accept"), (" tokens", "quiet")]
    wide: Line = [*left]
    if snapshot.kv_tokens is not None:
        wide += [("  of ", "quiet"), (count(snapshot.kv_tokens), "plain"), (" KV tokens", "quiet")]
    right: Line = [(span + " ", "quiet")]
    return spread(wide if sum(len(t) for t, _ in wide) + len(span) + 3 <= width else left, right, width)


def chart(snapshot: Snapshot, edges: tuple[float, float], size: tuple[int, int], glyphs: Glyphs) -> list[Line]:
    """The lanes and the time axis, exactly as many rows as `size` says."""
    width, rows = size
    columns = width - LABELS - 1
    if columns < 8 or rows < 2:
        return []
    points = [point for point in snapshot.points if edges[0] <= point.at <= edges[1]]
    if not any(point.gen_tok_s is not None for point in points):
        return _nothing(snapshot, width, rows)
    accepts = any(point.accept_len is not None for point in points) and rows - 1 >= ACCEPT_FROM
    accept_rows = ACCEPT_ROWS if accepts else 0
    speed_rows = rows - 1 - accept_rows
    marks = mark_columns(snapshot.marks, edges, columns)
    speeds = [(p.at, p.gen_tok_s) for p in points if p.gen_tok_s is not None]
    top = ceiling(max(speed for _, speed in speeds))
    lines = _lane(speeds, edges, (columns, speed_rows), (0.0, top), "speed", glyphs, marks)
    if accepts:
        lengths = [(p.at, p.accept_len) for p in points if p.accept_len is not None]
        most = max(2.0, math.ceil(max(length for _, length in lengths)))
        lines += _lane(lengths, edges, (columns, accept_rows), (1.0, most), "accept", glyphs, [])
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
) -> list[Line]:
    rows = size[1]
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
        lines.append(
            [(pad(label, LABELS, right=True), "quiet"), (" ", "plain"), *_with_marks(text, style, glyphs, marks)]
        )
    return lines


def _with_marks(text: str, style: str, glyphs: Glyphs, marks: list[tuple[int, str]]) -> Line:
    """Marks stand behind the curve: a dotted line on empty cells, named on the time axis."""
    blank = ("\u2800", " ")
    cells = [(" " if char in blank else char, style) for char in text]
    for column, _ in marks:
        if cells[column][0] == " ":
            cells[column] = (glyphs.mark, "quiet")
    return _runs(cells)


def _gap(points: list[tuple[float, float]]) -> float | None:
    """Seconds without a point that count as a hole."""
    if len(points) < 3:
        return None
    steps = sorted(b[0] - a[0] for a, b in pairwise(points))
    return max(5.0, GAP_STEPS * steps[len(steps) // 2])


def _time_axis(edges: tuple[float, float], columns: int, marks: list[tuple[int, str]], glyphs: Glyphs) -> Line:
    """Round times; where a mark stands, its name instead."""
    cells = [(" ", "quiet")] * columns
    taken: list[tuple[int, int]] = []
    for position, (column, name) in enumerate(marks):
        end = marks[position + 1][0] if position + 1 < len(marks) else columns
        words = fit(f"{glyphs.mark}{name}", end - column, "")
        cells[column : column + len(words)] = [(char, "plain") for char in words]
        taken.append((column - 1, column + len(words) + 1))
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
    if snapshot.ready_at is not None and snapshot.exited_at is None:
        words = "Ready. Nobody has asked for tokens yet."
    elif snapshot.state is State.STARTING:
        words = "Tokens per second appear here as soon as the server decodes."
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
