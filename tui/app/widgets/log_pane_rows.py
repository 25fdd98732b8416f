"""The log pane's title and rows as runs of text."""

import re

from tui.app.glyphs import Glyphs
from tui.app.log_document import Entry
from tui.app.log_lines import clipped, harmless, highlighted, kind_of, wrapped
from tui.app.log_view import Placed
from tui.app.text import count, escape, fit
from tui.app.widgets.canvas import Line, length
from tui.frozen import frozen

TITLE_CHARS = 500  # of an exception's message in a folded row


@frozen(kw_only=False)
class Look:
    """How rows are drawn. `gutter`: cells for line numbers, 0 for none; `left`: cells scrolled to the right."""

    glyphs: Glyphs
    width: int
    wrap: bool
    left: int
    gutter: int
    lines_before: int
    highlight: re.Pattern[str] | None

    @property
    def text_width(self) -> int:
        """Cells for the text of a line, beside the cursor and the line number."""
        return max(4, self.width - 1 - self.gutter)


def height_of(entry: Entry, look: Look) -> int:
    """Rows that an entry takes."""
    if not look.wrap or entry.folded or len(entry.text) * 2 <= look.text_width:
        return 1
    return len(wrapped(entry.text, look.text_width))


def row_line(placed: Placed, look: Look, here: bool) -> Line:
    """One row; `here`: the cursor is on it."""
    entry, row = placed.entry, placed.row
    line: Line = [(look.glyphs.cursor, "key") if here and row == 0 else (" ", "plain")]
    if look.gutter:
        number = "" if entry.line is None or row else str(look.lines_before + entry.line + 1)
        line.append((number.rjust(look.gutter - 1) + " ", "faint"))
    if entry.folded:
        return [*line, *_folded(entry, look)]
    style = _style(entry)
    if look.wrap:
        pieces = wrapped(entry.text, look.text_width)
        text = pieces[min(row, len(pieces) - 1)]
    else:
        text = clipped(entry.text, look.left, look.text_width, look.glyphs.ellipsis)
    return [*line, *highlighted(text, style, look.highlight)]


def _style(entry: Entry) -> str:
    """In a traceback the exception matters, the frames are to be read at need."""
    if entry.block is None:
        return kind_of(entry.text)
    if entry.line == entry.block.first or entry.text[:1].strip():
        return "bad"
    return "plain"


def _folded(entry: Entry, look: Look) -> Line:
    block = entry.block
    lines = 0 if block is None else block.last - block.first + 1
    head: Line = [(f"{look.glyphs.cursor} ", "bad")]
    if block is not None and block.rank:
        head.append((f"{escape(block.rank, 40)} ", "quiet"))
    tail = f"  ({lines} lines)"
    room = look.text_width - length(head) - len(tail)
    text = fit(harmless(entry.text, TITLE_CHARS), room, look.glyphs.ellipsis)
    return [*head, *highlighted(text, "bad", look.highlight), (tail, "quiet")]


@frozen(kw_only=False)
class Standing:
    """What the title says: `at` is the line of the cursor, `new` the lines written since the window stands still."""

    following: bool
    new: int
    lines: int
    at: int | None
    indexing: float | None  # 0..1 of the file, None when all of it is indexed
    filter: str
    passed: int
    hides_polls: bool
    search: str
    busy: str


def title_line(standing: Standing, width: int) -> Line:
    """The pane's first row. What matters least goes first when there is little room."""
    left: Line = [(" Log", "title")]
    if standing.following:
        left.append(("  FOLLOW", "good"))
    else:
        left.append(("  PAUSED", "warn"))
        if standing.new:
            left.append((f" +{count(standing.new)} new", "warn"))
    parts: list[Line] = []
    if standing.filter:
        shown = fit(escape(standing.filter), 30)
        parts.append([("& ", "key"), (shown, "changed"), (f" {count(standing.passed)} lines", "quiet")])
    if standing.search:
        parts.append([("/ ", "key"), (fit(escape(standing.search), 30), "changed")])
    if standing.busy:
        parts.append([(standing.busy, "quiet")])
    if standing.hides_polls:
        parts.append([("polls hidden", "quiet")])
    if standing.indexing is not None:
        parts.append([(f"indexing {standing.indexing:.0%}", "quiet")])
    for part in parts:
        if length(left) + 2 + length(part) <= width:
            left = [*left, ("  ", "plain"), *part]
    at = "" if standing.at is None or standing.following else f"line {count(standing.at)} of "
    right = f"{at}{count(standing.lines)} lines " if standing.lines else ""
    space = width - length(left) - len(right)
    return [*left, (" " * space, "plain"), (right, "quiet")] if right and space > 1 else left
