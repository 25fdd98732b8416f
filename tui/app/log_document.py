"""A log as a sequence of entries to walk through from anywhere, of which only the pages in sight are ever read."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from tui.app.log_blocks import HEAD, Block, find_blocks, is_copy
from tui.app.log_filter import LineFilter
from tui.frozen import frozen
from tui.sources.lineindex import LineIndex
from tui.sources.lineseek import Row, rows_from

PAGE = 64
AROUND = 256  # lines read before and after a page, for tracebacks that begin or end there
NEAR = 32  # lines that do not pass are read too rather than a further place in the file
COPIES_AROUND = 1500  # lines before a traceback in which the same one is looked for
PAGES_KEPT = 24
KNOWN_KEPT = 2000  # tracebacks


@frozen(kw_only=False)
class Entry:
    """One line, or a folded traceback. It takes the positions from `position` to before `end`.

    `line`: its number in the index, None where the index has not come yet. `block` counts lines of the index.
    """

    position: int
    end: int
    line: int | None
    text: str
    block: Block | None = None
    folded: bool = False


class Document(Protocol):
    """What the pane walks through. Positions are ascending numbers, of lines or of bytes."""

    @property
    def total(self) -> int:
        """The position after the last."""
        ...

    def forward(self, position: int) -> Iterator[Entry]:
        """The entries from the one that holds `position` on."""
        ...

    def backward(self, position: int) -> Iterator[Entry]:
        """The entries that end at or before `position`, last first."""
        ...


class LineDocument:
    """The lines of an index, or those that pass a filter. Tracebacks are folded unless lines are filtered by text."""

    def __init__(self, index: LineIndex, passed: LineFilter | None = None, *, folding: bool = True) -> None:
        self.index = index
        self.passed = passed
        self._folding = folding
        self._turned: set[int] = set()  # first lines of the blocks that are not as they would be by themselves
        self._known: dict[int, Block | None] = {}
        self._copies: dict[tuple[int, str], bool] = {}
        self._pages: OrderedDict[tuple[int, int, int], list[Entry]] = OrderedDict()
        self._texts: OrderedDict[int, tuple[list[str], bool]] = OrderedDict()
        self._last: tuple[int, int, tuple[list[str], bool]] | None = None  # a page that is still written, and when

    @property
    def total(self) -> int:
        return self.index.count if self.passed is None else len(self.passed.lines)

    def turn(self, block: Block) -> None:
        """Fold what is unfolded, and the other way round."""
        self._turned ^= {block.first}
        self._pages.clear()

    def position_of(self, line: int) -> int | None:
        """Position of a line of the index, None where it is not among them."""
        if self.passed is None:
            return line if 0 <= line < self.total else None
        place = self.passed.position(line)
        return place if place < self.total and self.passed.lines[place] == line else None

    def entry_at(self, position: int) -> Entry | None:
        """The entry that holds `position`."""
        return next(self.forward(position), None)

    def forward(self, position: int) -> Iterator[Entry]:
        total = self.total
        position = max(0, min(position, total - 1))
        page = max(0, position // PAGE - AROUND // PAGE) if self._swallowed(position) else position // PAGE
        while page * PAGE < total:
            for entry in self._page(page, total):
                if entry.end > position:
                    yield entry
            page += 1

    def backward(self, position: int) -> Iterator[Entry]:
        total = self.total
        page = (min(position, total) - 1) // PAGE
        while page >= 0:
            for entry in reversed(self._page(page, total)):
                if entry.end <= position:
                    yield entry
            page -= 1

    def _swallowed(self, position: int) -> bool:
        """Whether a folded traceback of an earlier page reaches to `position`."""
        entries = self._page(position // PAGE, self.total)
        return not entries or entries[0].position > position

    def _page(self, page: int, total: int) -> list[Entry]:
        first, stop = page * PAGE, min(total, (page + 1) * PAGE)
        seen = min(total, stop + AROUND)
        # What is at the end of the log may still be written.
        key = (page, seen, self.index.scanned if seen == total else 0)
        entries = self._pages.get(key)
        if entries is None:
            entries = self._pages[key] = self._read(first, stop, seen)
            while len(self._pages) > PAGES_KEPT:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(key)
        return entries

    def _read(self, first: int, stop: int, seen: int) -> list[Entry]:
        start = max(0, first - AROUND)
        if not self._folding or not self._holds_head(start, seen):
            return _plain(self._lines(first, stop), first, first, stop)
        lines = self._lines(start, seen)
        entries: list[Entry] = []
        place = start
        if len(self._known) > KNOWN_KEPT:
            self._known.clear()
        for found in find_blocks([text for _, text in lines], start, self._known):
            entries += _plain(lines, start, place, found.first)
            entries += self._block_entries(lines, start, found)
            place = found.last + 1
        entries += _plain(lines, start, place, start + len(lines))
        return [entry for entry in entries if first <= entry.position < stop]

    def _block_entries(self, lines: list[tuple[int, str]], start: int, found: Block) -> list[Entry]:
        head, last = found.first - start, min(found.last - start, len(lines) - 1)
        block = Block(lines[head][0], lines[last][0], found.title, found.rank)
        ended = last + 1 < len(lines)
        folded = (ended and self._is_copy(block)) != (block.first in self._turned)
        if folded:
            return [Entry(start + head, start + last + 1, block.first, found.title, block, True)]
        return [Entry(start + i, start + i + 1, *lines[i], block, False) for i in range(head, last + 1)]

    def _is_copy(self, block: Block) -> bool:
        key = (block.first, block.title)
        known = self._copies.get(key)
        if known is None:
            start = max(0, block.first - COPIES_AROUND)
            known = self._copies[key] = is_copy(block, self.index.raw(start, block.first))
        return known

    def _lines(self, first: int, stop: int) -> list[tuple[int, str]]:
        """(number, text) of the lines at these positions."""
        if self.passed is None:
            return self._unfiltered(first, stop)
        numbers = self.passed.lines[first:stop]
        lines: list[tuple[int, str]] = []
        i = 0
        while i < len(numbers):
            j = i + 1
            while j < len(numbers) and numbers[j] - numbers[j - 1] <= NEAR:
                j += 1
            start = numbers[i]
            texts = self.index.read(start, numbers[j - 1] - start + 1)
            # The file may have been cut meanwhile.
            lines += [(n, texts[n - start] if n - start < len(texts) else "") for n in numbers[i:j]]
            i = j
        return lines

    def _holds_head(self, first: int, stop: int) -> bool:
        """Whether a traceback begins among the lines at these positions, or near them."""
        if self.passed is not None:
            return any(HEAD in text for _, text in self._lines(first, stop))
        return any(self._page_texts(page)[1] for page in range(first // PAGE, (stop + PAGE - 1) // PAGE))

    def _unfiltered(self, first: int, stop: int) -> list[tuple[int, str]]:
        lines: list[tuple[int, str]] = []
        for page in range(first // PAGE, (stop + PAGE - 1) // PAGE):
            lines += enumerate(self._page_texts(page)[0], page * PAGE)
        skipped = first % PAGE
        return lines[skipped : skipped + stop - first]

    def _page_texts(self, page: int) -> tuple[list[str], bool]:
        """The lines of a page of the index, and whether a traceback begins there.

        Pages of finished lines are kept: while the end is followed only the last page is read again.
        """
        kept = self._texts.get(page)
        if kept is not None:
            return kept
        scanned = self.index.scanned
        if self._last is not None and self._last[:2] == (page, scanned):
            return self._last[2]
        finished = (page + 1) * PAGE <= self.index.complete
        texts = self.index.read(page * PAGE, PAGE)
        found = texts, any(HEAD in text for text in texts)
        if finished and len(texts) == PAGE:
            self._texts[page] = found
            while len(self._texts) > PAGES_KEPT:
                self._texts.popitem(last=False)
        else:
            self._last = page, scanned, found
        return found


def _plain(lines: list[tuple[int, str]], start: int, first: int, stop: int) -> list[Entry]:
    return [Entry(i, i + 1, *lines[i - start]) for i in range(first, min(stop, start + len(lines)))]


class ByteDocument:
    """The file by offsets, for as long as its index is far from the end. Nothing is folded or filtered."""

    def __init__(self, index: LineIndex) -> None:
        self.index = index
        self._size = index.size()

    @property
    def total(self) -> int:
        return self._size

    def refresh(self) -> None:
        """See what was written since."""
        self._size = self.index.size()

    def forward(self, position: int) -> Iterator[Entry]:
        start = max(0, position)
        while rows := rows_from(self.index.fd, start, PAGE + 1, self._size):
            if len(rows) <= PAGE:
                yield from self._entries(rows, self._size)
                return
            start = rows.pop().offset
            yield from self._entries(rows, start)

    def backward(self, position: int) -> Iterator[Entry]:
        end = min(position, self._size)
        while end > 0 and (rows := self.index.tail(PAGE, before=end)):
            yield from reversed(self._entries(rows, end))
            if rows[0].offset >= end:
                return
            end = rows[0].offset

    def _entries(self, rows: list[Row], end: int) -> list[Entry]:
        """The last row ends at `end`."""
        ends = [row.offset for row in rows[1:]] + [end]
        return [Entry(row.offset, stop, None, row.text) for row, stop in zip(rows, ends, strict=True)]
