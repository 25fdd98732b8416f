"""Throughput over time, accept length below it, and marks where something happened."""

import math
from collections.abc import Sequence

from tui.app.axes import ceiling, clock_ticks, window
from tui.app.glyphs import Glyphs
from tui.app.plot_adapter import GAP_STEPS, curve
from tui.app.text import count, duration, escape, fit, number, pad
from tui.app.widgets.canvas import Canvas, Line, spread
from tui.snapshot import PlotMark, Snapshot

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
    """"throughput 89.5 tok/s  accept length 2.31 … 5 min"."""
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
    return [*lines, _time_axis(edges, columns)]


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
    columns, rows = size
    drawn = curve(points, size, edges, limits, glyphs.plot_marker, gap=_gap(points))
    lines: list[Line] = []
    for row, text in enumerate(drawn):
        label = ""
        if row == 0:
            label = f"{limits[1]:g}"
        elif row == rows - 1:
            label = f"{limits[0]:g}"
        elif rows >= 7 and row == rows // 2:
            label = f"{limits[1] - (limits[1] - limits[0]) * (row + 0.5) / rows:.3g}"
        lines.append([(pad(label, LABELS, right=True), "quiet"), (" ", "plain"), *_with_marks(text, row, style, glyphs, marks)])
    return lines


def _with_marks(text: str, row: int, style: str, glyphs: Glyphs, marks: list[tuple[int, str]]) -> Line:
    """Marks stand behind the curve: a dotted line on empty cells, named in the first row."""
    blank = ("\u2800", " ")
    cells = [(" " if char in blank else char, style) for char in text]
    for position, (column, name) in enumerate(marks):
        if cells[column][0] == " ":
            cells[column] = (glyphs.mark, "quiet")
        if row == 0:
            end = marks[position + 1][0] if position + 1 < len(marks) else len(cells)
            for i, char in enumerate(fit(name, max(0, end - column - 2), "")):
                if cells[column + 1 + i][0] == " ":
                    cells[column + 1 + i] = (char, "quiet")
    runs: Line = []
    for char, name in cells:
        if runs and (runs[-1][1] == name or char == " "):
            runs[-1] = (runs[-1][0] + char, runs[-1][1])
        else:
            runs.append((char, name))
    return runs


def _gap(points: list[tuple[float, float]]) -> float | None:
    """Seconds without a point that count as a hole."""
    if len(points) < 3:
        return None
    steps = sorted(b[0] - a[0] for a, b in zip(points, points[1:], strict=False))
    return max(5.0, GAP_STEPS * steps[len(steps) // 2])


def _time_axis(edges: tuple[float, float], columns: int) -> Line:
    text = " " * columns
    for column, name in clock_ticks(*edges, columns):
        text = text[:column] + name + text[column + len(name) :]
    return [(" " * (LABELS + 1), "plain"), (text, "quiet")]


def _nothing(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """An empty plot says why."""
    if snapshot.ready_at is not None:
        words = "Ready, and nobody has asked for tokens yet."
    elif snapshot.progress.launched_at is not None and snapshot.exited_at is None:
        waited = duration(snapshot.at - snapshot.progress.launched_at)
        words = f"Tokens per second appear here when the server decodes; launched {waited} ago."
    else:
        words = "Tokens per second appear here when a server decodes."
    lines: list[Line] = [[] for _ in range(rows)]
    lines[max(0, rows // 2 - 1)] = [("  ", "plain"), (fit(words, width - 4), "quiet")]
    return lines

