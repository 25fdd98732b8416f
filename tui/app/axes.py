"""Axes of the plot that stand still: round limits, and a window that fills up and then jumps. Pure."""

import math
import time

ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
# The window jumps by this part of its span, so that for most seconds only the newest cell changes on the wire.
JUMPS = 6
SPANS_OF_ALL = (60.0, 300.0, 900.0, 3600.0, 10800.0, 21600.0, 43200.0, 86400.0, 172800.0, 604800.0)


def window(newest: float, span_s: float) -> tuple[float, float]:
    """(left, right) of a time window of `span_s` seconds that holds `newest` and moves in steps."""
    step = span_s / JUMPS
    right = (math.floor(newest / step) + 1) * step
    return right - span_s, right


def window_of_all(first: float | None, newest: float) -> tuple[float, float]:
    """(left, right) of a window that holds everything from `first` on; its span grows in steps."""
    age = 0.0 if first is None else newest - first
    for span in SPANS_OF_ALL:
        edges = window(newest, span)
        if first is None or edges[0] <= first:
            return edges
    days = math.ceil(age / 86400.0 * JUMPS / (JUMPS - 1)) + 1  # the right edge is up to one jump ahead
    return window(newest, days * 86400.0)


def ceiling(most: float, headroom: float = 1.05) -> float:
    """A round number that is at least `most` with some headroom."""
    if most <= 0 or not math.isfinite(most):
        return 1.0
    wanted = most * headroom
    scale = 10.0 ** math.floor(math.log10(wanted))
    return next(step * scale for step in ROUND if step * scale >= wanted - 1e-9 * scale)


def clock_ticks(left: float, right: float, columns: int) -> list[tuple[int, str]]:
    """(column, "12:40") of round local times within the window, with room between them."""
    span = right - left
    if columns < 8 or span <= 0:
        return []
    most = max(1, columns // 14)
    steps = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
    step = next((step for step in steps if span / step <= most), steps[-1])
    ticks: list[tuple[int, str]] = []
    at = math.ceil(left / step) * step
    while at <= right:
        column = int((at - left) / span * columns)
        text = time.strftime("%H:%M:%S" if step < 60 else "%H:%M", time.localtime(at))
        if column - len(text) // 2 >= 0 and column + len(text) - len(text) // 2 <= columns:
            ticks.append((column - len(text) // 2, text))
        at += step
    return ticks
