"""Whether what a file says can be true: one that a person or a dying disk changed must not break a list of many."""

import math
from typing import Any

LAST_TIME = 1e11  # the year 5138


def is_number(value: Any) -> bool:
    """Whether it is a finite number, or None."""
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


def is_time(value: Any) -> bool:
    """Whether it is a Unix time that a calendar knows, or None."""
    return value is None or (is_number(value) and 0 <= value < LAST_TIME)


def to_time(value: Any) -> float:
    """A Unix time. Raises TypeError and ValueError."""
    at = float(value)
    if not is_time(at):
        raise ValueError(f"{value} is no time")
    return at
