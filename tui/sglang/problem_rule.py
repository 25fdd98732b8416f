"""What a rule of `tui.sglang.problems` is: words that a line must hold, and the numbers to read from it."""

import re
from collections.abc import Callable
from functools import cache

from tui.frozen import frozen

F = r"\d{1,9}(?:\.\d{1,12})?"  # a size, fraction or time
N = r"-?\d{1,15}"  # a count


@frozen(kw_only=False)
class Rule:
    """`needle` must be in the message, then `expression` must match; its named groups are the numbers.

    `alone`: only when no other rule found anything, because the words are part of many other messages.
    `optional`: the needle is enough, the pattern only reads numbers.
    `exception`: the words come only in exception lines, which are looked at anyway.
    """

    code: str
    needle: str
    expression: str | None = None
    read: Callable[[str], dict[str, float]] | None = None
    alone: bool = False
    exception: bool = False
    optional: bool = False

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """Compiled when a line first needs it: two hundred patterns are a tenth of the time that a command takes."""
        return None if self.expression is None else _compiled(self.expression)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII)


def rule(
    code: str,
    needle: str,
    pattern: str | None = None,
    read: Callable[[str], dict[str, float]] | None = None,
    *,
    alone: bool = False,
    exception: bool = False,
    optional: bool = False,
) -> Rule:
    """A rule; `pattern` sees ASCII classes only."""
    return Rule(code, needle, pattern, read, alone, exception, optional)
