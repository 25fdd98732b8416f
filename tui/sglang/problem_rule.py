"""What a rule of `tui.sglang.problems` is: words that a line must hold, and the numbers to read from it."""

import re
from collections.abc import Callable

from tui.frozen import frozen
from tui.patterns import lazy

F = r"\d{1,9}(?:\.\d{1,12})?"  # a size, fraction or time
N = r"-?\d{1,15}"  # a count


@frozen(kw_only=False)
class Rule:
    """`needle` must be in the message, then `pattern` must match; its named groups are the numbers.

    `alone`: only when no other rule found anything, because the words are part of many other messages.
    `optional`: the needle is enough, the pattern only reads numbers.
    `exception`: the words come only in exception lines, which are looked at anyway.
    """

    code: str
    needle: str
    pattern: re.Pattern[str] | None = None
    read: Callable[[str], dict[str, float]] | None = None
    alone: bool = False
    exception: bool = False
    optional: bool = False


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
    return Rule(code, needle, None if pattern is None else lazy(pattern, re.ASCII), read, alone, exception, optional)
