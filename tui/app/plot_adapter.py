"""The only file that knows plotext (6.x): points in, rows of characters out."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

# Points further apart than this many times the usual step are not joined: nobody measured in between.
GAP_STEPS = 6.0
DOTS = 2  # columns of dots in a cell of braille
_BRAILLE = 0x2800
_LEFT, _RIGHT = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)  # the dots of a cell's columns, from the top


def curve(
    points: Sequence[tuple[float, float]],
    size: tuple[int, int],
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    marker: str = "braille",
    gap: float | None = None,
    fill: bool = False,
) -> list[str]:
    """A line through `points` on a canvas of `size` (columns, rows), one string per row, each `columns` long.

    `x_limits` and `y_limits` are the values at the canvas's edges. Points further apart in x than `gap` are not joined.
    `fill`: everything below the line, too. Not by plotext's own filling, which takes 0.25 ms and 0.2 MiB for each
    point: a second and 800 MiB for a day of them.
    """
    columns, rows = size
    if columns <= 0 or rows <= 0:
        return []
    if not points:
        return [" " * columns] * rows
    step = (x_limits[1] - x_limits[0]) / (columns * DOTS)
    points = thinned(points, x_limits[0], step)
    gap = None if gap is None else max(gap, 3 * step)  # what is left of two columns may lie two of them apart
    import plotext  # 60 ms and a shared library: only when something is drawn

    library: Any = plotext
    library.terminal.limit(False, False)
    figure = library.figure
    figure.clear.data()
    figure.clear.settings()
    figure.plot_size(columns, rows)
    figure.theme("colorless")
    figure.axes(False)
    signal = figure.signal([x for x, _ in points], [y for _, y in points], marker=marker)
    signal.lines()
    if gap is not None:
        for i in range(1, len(points)):
            if points[i][0] - points[i - 1][0] > gap:
                signal.line(i, False)
    figure.draw(signal)
    figure.ruler(0, 0).lim(*x_limits)
    figure.ruler(1, 0).lim(*y_limits)
    figure.ruler(0, 0).ticks([], [])
    figure.ruler(1, 0).ticks([], [])
    lines = figure.build().string(colorless=True).split("\n")
    drawn = [line[:columns].ljust(columns) for line in (lines + [""] * rows)[:rows]]
    return filled(drawn) if fill else drawn


def thinned(points: Sequence[tuple[float, float]], left: float, step: float) -> list[tuple[float, float]]:
    """Of the points in each column of `step` from `left` on the lowest and the highest, in their order: the stroke
    between them is all that plotext draws of them."""
    kept: list[tuple[float, float]] = []
    for _, group in groupby(points, key=lambda point: int((point[0] - left) // step)):
        column = list(group)
        ends = {min(column, key=lambda point: point[1]), max(column, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept


def filled(rows: Sequence[str]) -> list[str]:
    """A line of braille dots, or of other characters, with everything below it."""
    below: tuple[set[int], set[int]] = set(), set()  # cells whose left, whose right dots are below the line
    whole: dict[int, str] = {}  # the same of other characters
    lines = []
    for row in rows:
        cells = []
        for column, char in enumerate(row):
            dots = ord(char) - _BRAILLE if char != " " else 0
            if not 0 <= dots < 0x100:
                whole[column] = char
            elif column in whole:
                char = whole[column]
            elif dots or column in below[0] or column in below[1]:
                char = chr(_BRAILLE + _filled(dots, column, below))
            cells.append(char)
        lines.append("".join(cells))
    return lines


def _filled(dots: int, column: int, below: tuple[set[int], set[int]]) -> int:
    for under, bits in zip(below, (_LEFT, _RIGHT), strict=True):
        for bit in bits:
            if dots & bit:
                under.add(column)
            elif column in under:
                dots |= bit
    return dots
