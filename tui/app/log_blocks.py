"""Tracebacks among the lines on screen: each is one record that can be folded into its last line."""

import re
from collections.abc import Sequence

from tui.facts import Traceback
from tui.frozen import frozen
from tui.sources.linetext import line_text

HEAD = "Traceback (most recent call last)"
MOST_LINES = 400  # of one traceback
_NUMBERS = re.compile(r"\d+")


@frozen(kw_only=False)
class Block:
    """Lines `first` to `last`, counted in the sequence that was searched; `title` is the exception in one line."""

    first: int
    last: int
    title: str
    rank: str | None = None


def find_blocks(texts: Sequence[str], start: int = 0, known: dict[int, Block | None] | None = None) -> list[Block]:
    """The tracebacks of more than one line in `texts`, in order, none inside another, counted from `start` on.

    `known` remembers, by its first line, what needs no second look: a traceback that other lines follow.
    """
    known = {} if known is None else known
    blocks: list[Block] = []
    place = 0
    while place < len(texts):
        if HEAD in texts[place]:
            block = known[start + place] if start + place in known else _whole(texts, place, start)
            if block is not None:
                blocks.append(block)
                place = block.last - start
            if place + 1 < len(texts) and (block is not None or place + MOST_LINES < len(texts)):
                known[block.first if block is not None else start + place] = block
        place += 1
    return blocks


def _whole(texts: Sequence[str], place: int, start: int) -> Block | None:
    """The traceback that begins there, with the empty lines that end its record."""
    block = _block(texts, place)
    if block is None:
        return None
    last = block.last
    while last + 1 < len(texts) and not texts[last + 1].strip():
        last += 1
    return Block(start + block.first, start + last, block.title, block.rank)


def is_copy(block: Block, before: bytes) -> bool:
    """Whether one of the lines `before` it ends a traceback with the same exception: another rank's."""
    wanted = likeness(block.title)
    kind = block.title.partition(":")[0].encode()
    place = before.find(kind)
    while place >= 0:
        start, end = before.rfind(b"\n", 0, place) + 1, before.find(b"\n", place)
        end = end if end >= 0 else len(before)
        if likeness(line_text(before[start:end])).endswith(wanted):
            return True
        place = before.find(kind, end)
    return False


def likeness(text: str) -> str:
    """What is the same on every rank."""
    return _NUMBERS.sub("0", text.strip())


def _block(texts: Sequence[str], first: int) -> Block | None:
    from tui.sglang.prefix import Splitter
    from tui.sglang.tracebacks import TracebackAssembler  # with every rule of a problem: not for the first frame

    assembler, splitter = TracebackAssembler(), Splitter()
    for i in range(first, min(len(texts), first + MOST_LINES)):
        if i > first and HEAD in texts[i] and any(record.stamped for record in splitter.split(texts[i])):
            break
        for record in splitter.split(texts[i]):
            _, _, done = assembler.feed(record, i, 0.0)
            if fact := next((fact for fact in done if fact.line == first), None):
                return _made(fact)
    fact = next((fact for fact in assembler.finish() if fact.line == first), None)
    return None if fact is None else _made(fact)


def _made(fact: Traceback) -> Block | None:
    if fact.last_line <= fact.line or fact.exception is None:
        return None
    message = (fact.message or "").partition("\n")[0]
    title = f"{fact.exception}: {message}" if message else str(fact.exception)
    return Block(fact.line, fact.last_line, title, fact.rank)
