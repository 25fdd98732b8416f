"""Tracebacks among the lines on screen: each is one record that can be folded into its last line."""

import re
from collections.abc import Sequence

from tui.facts import Traceback
from tui.frozen import frozen

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


def find_blocks(texts: Sequence[str]) -> list[Block]:
    """The tracebacks of more than one line in `texts`, in order, none inside another."""
    blocks: list[Block] = []
    place = 0
    while place < len(texts):
        block = _block(texts, place) if HEAD in texts[place] else None
        if block is not None:
            place = block.last
            while place + 1 < len(texts) and not texts[place + 1].strip():  # the empty line that ends the record
                place += 1
            blocks.append(Block(block.first, place, block.title, block.rank))
        place += 1
    return blocks


def is_copy(block: Block, before: Sequence[str]) -> bool:
    """Whether one of the lines `before` it ends a traceback with the same exception: another rank's."""
    wanted = likeness(block.title)
    kind = block.title.partition(":")[0]
    return any(kind in text and likeness(text).endswith(wanted) for text in before)


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
