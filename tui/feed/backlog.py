"""What is read of a chunk of a log: every line when it is news, and of a backlog all that is not throughput.

A reader that is far behind (a log of hours that is opened, a burst) need not fold millions of decode and prefill lines
one by one: they only say how fast the server was at a time that is over. Of each block the last ones are read, in a
row, so that each but the first has its true predecessor. Every other line is read as ever, and every line is counted.
"""

from collections.abc import Iterator

from tui.sglang.bulk import sift
from tui.sources.linetext import line_text, split_lines
from tui.sources.logfile import LogChunk

Numbered = tuple[int, str]

BLOCK_BYTES = 256 * 1024
SAMPLED_LINES = 32
"""So many last lines of each block of a backlog are read whatever they say."""


def every_line(chunk: LogChunk) -> Iterator[Numbered]:
    """All lines, with their numbers."""
    number = chunk.first
    for part in chunk.parts:
        texts = [part] if isinstance(part, str) else split_lines(part[:-1])
        yield from enumerate(texts, number)
        number += len(texts)


def telling_lines(chunk: LogChunk) -> Iterator[Numbered]:
    """The lines that say more than the throughput, and a sample of those, in order."""
    number = chunk.first
    for part in chunk.parts:
        if isinstance(part, str):
            yield number, part
            number += 1
            continue
        for block in _blocks(part):
            found, following = sift(block, number)
            sample = block[_last_lines(block) :].split(b"\n")[:-1]
            number = following - len(sample)
            yield from ((at, line_text(line)) for at, line in found if at < number)
            yield from ((at, line_text(line)) for at, line in enumerate(sample, number))
            number = following


def _blocks(data: bytes) -> Iterator[bytes]:
    """Pieces of whole lines of about `BLOCK_BYTES`: no look at one holds the interpreter for long."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", min(len(data) - 1, start + BLOCK_BYTES)) + 1
        yield data[start:end]
        start = end


def _last_lines(block: bytes) -> int:
    place = len(block)
    for _ in range(SAMPLED_LINES + 1):
        place = block.rfind(b"\n", 0, place)
        if place < 0:
            break
    return place + 1
