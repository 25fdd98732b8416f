"""The only file that knows plotext (6.x): points in, rows of characters out."""

from collections.abc import Sequence
from typing import Any

# Points further apart than this many times the usual step are not joined: nobody measured in between.
GAP_STEPS = 6.0


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
    """
    columns, rows = size
    if columns <= 0 or rows <= 0:
        return []
    if not points:
        return [" " * columns] * rows
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
    if fill:
        signal.fillx()
    figure.draw(signal)
    figure.ruler(0, 0).lim(*x_limits)
    figure.ruler(1, 0).lim(*y_limits)
    figure.ruler(0, 0).ticks([], [])
    figure.ruler(1, 0).ticks([], [])
    lines = figure.build().string(colorless=True).split("\n")
    return [line[:columns].ljust(columns) for line in (lines + [""] * rows)[:rows]]
