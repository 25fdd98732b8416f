"""The log of a run read again: its facts up to a line, as a dashboard heard them."""

from collections.abc import Iterator
from pathlib import Path

from tui.facts import Fact
from tui.sglang.grammar import LogGrammar
from tui.sources.linetext import LineSplitter

_BLOCK = 1 << 20


class LogReader:
    """Reads complete lines once, in order. A log that is not there has no lines.

    `lines` and `bytes`: how far it has read.
    """

    def __init__(self, path: Path) -> None:
        self._grammar = LogGrammar()
        self._texts = _texts(path)
        self.lines = 0
        self.bytes = 0

    def until(self, line: int, seen_at: float) -> Iterator[Fact]:
        """The facts of the lines up to number `line`."""
        while self.lines < line:
            facts = self.next(seen_at)
            if facts is None:
                return
            yield from facts

    def next(self, seen_at: float) -> list[Fact] | None:
        """The facts of the next line; None at the end of the file."""
        found = next(self._texts, None)
        if found is None:
            return None
        text, self.bytes = found
        self.lines += 1
        return self._grammar.feed(self.lines, text, seen_at)

    def settle(self) -> list[Fact]:
        """What was complete when its reader waited no longer."""
        return self._grammar.settle()

    def finish(self, seen_at: float) -> list[Fact]:
        """What was still open: tracebacks without an end."""
        return self._grammar.finish(seen_at)


def _texts(path: Path) -> Iterator[tuple[str, int]]:
    """Each complete line and where the next one begins, to within the block that was read."""
    try:
        file = path.open("rb")
    except OSError:
        return
    splitter = LineSplitter()
    read = 0
    with file:
        while block := file.read(_BLOCK):
            lines = splitter.feed(block)
            read += len(block)
            ends = _ends(block, read - len(block))
            yield from zip(lines, ends, strict=True)


def _ends(block: bytes, start: int) -> Iterator[int]:
    place = block.find(b"\n")
    while place >= 0:
        yield start + place + 1
        place = block.find(b"\n", place + 1)
