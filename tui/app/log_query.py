"""What the operator typed to search or filter, as patterns for bytes in the file and for text on the screen."""

import re

from tui.app.log_lines import POLL
from tui.frozen import frozen
from tui.sources.linesearch import line_pattern


@frozen(kw_only=False)
class Query:
    """`typed`: as it was typed. `inverse`: lines without a match are wanted."""

    typed: str
    wanted: re.Pattern[bytes]
    shown: re.Pattern[str] | None
    inverse: bool = False


def parse(typed: str) -> Query | None:
    """A query of `text`, `/regular expression/`, either with `!` before it; None for nothing.

    Capitals count only when there is one. Raises ValueError with a sentence for a broken regular expression.
    """
    inverse = typed.startswith("!") and len(typed) > 1
    text = typed[1:] if inverse else typed
    if not text:
        return None
    regex = len(text) > 2 and text.startswith("/") and text.endswith("/")
    source = text[1:-1] if regex else text
    try:
        wanted = line_pattern(source, regex=regex)
        flags = (wanted.flags & re.IGNORECASE) | re.MULTILINE | re.ASCII
        shown = None if inverse else re.compile(source if regex else re.escape(source), flags)
    except re.error as error:
        raise ValueError(f"{text} is not a regular expression: {error}.") from None
    return Query(typed, wanted, shown, inverse)


def line_filter(query: Query | None, hide_polls: bool) -> tuple[re.Pattern[bytes], bool] | None:
    """One pattern and whether the lines without a match are wanted; None when every line is."""
    if query is None:
        return (re.compile(POLL, re.MULTILINE), True) if hide_polls else None
    if not hide_polls:
        return query.wanted, query.inverse
    flags, source = query.wanted.flags, query.wanted.pattern
    if query.inverse:
        return re.compile(rb"(?:%b)|(?:%b)" % (source, POLL), flags), True
    return re.compile(rb"^(?!.*%b)(?=.*(?:%b))" % (POLL, source), flags), False
