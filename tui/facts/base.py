"""What every fact has."""

from typing import Any

from tui.frozen import frozen

Json = Any  # what `json.loads` gives


@frozen
class Fact:
    """Something that was observed. `at`: Unix seconds; of a log line the line's own stamp where it has one."""

    at: float


@frozen
class LogFact(Fact):
    """What one log record says. `line` is its 1-based number; `rank` such as "TP0" or "DP0 TP0", None without a tag."""

    line: int
    rank: str | None = None
