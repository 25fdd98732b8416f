"""Reads long logs quickly: finds the lines that may say something among millions of decode, prefill and access lines.

Works on bytes, before anything is decoded. A serving log is one kind of line over and over, so a block in which every
line is such a line is skipped whole by a few counts.
"""

from tui.sglang.gates import gate_bytes

# Every decode and prefill line of every version has this once; no other line has it.
_BATCH = b"#running-req: "
# The longer the words, the faster they are counted; most blocks of a busy server hold nothing but these lines.
_DECODE = b"] Decode batch, " + _BATCH
_ACCESS = b' HTTP/1.1" '
# Leaves newlines and the brackets that end stamps, of which a line of several records has more than the others.
_BUT_BRACKETS = bytes(set(range(256)) - set(b"]\n"))
_SMALL = 2048  # bytes; below this the lines are looked at one by one


def interesting(raw: bytes) -> bool:
    """Whether a line must be fed to `LogGrammar` to know everything but the throughput.

    Not interesting: decode, prefill and access lines, and stamped lines that no recogniser wants. Lines without a stamp
    are interesting: they may be part of a traceback.
    """
    if _BATCH in raw:
        return raw.count(b"] ") > 1 and (raw.count(_BATCH) > 1 or gate_bytes()(raw) is not None)
    if _ACCESS in raw and b"INFO" in raw:
        return False
    return gate_bytes()(raw) is not None or not _stamped(raw)


def sift(block: bytes, first: int) -> tuple[list[tuple[int, bytes]], int]:
    """The interesting lines of a block as (number, line without newline), and the number of the line after the block.

    The block must hold whole lines.

    `first`: the 1-based number of the block's first line. Feed the numbers to `LogGrammar.feed` in order; blocks of
    64 KiB to 1 MiB are best. A last line without newline counts as a line.
    """
    found: list[tuple[int, bytes]] = []
    following = _sift(block, 0, len(block), first, found)
    return found, following


def _sift(block: bytes, start: int, end: int, first: int, found: list[tuple[int, bytes]]) -> int:
    """Halves a range until it is dull or small."""
    brackets = (block if end - start == len(block) else block[start:end]).translate(None, _BUT_BRACKETS)
    if end > start and block[end - 1] != 0x0A:
        brackets += b"\n"
    lines = brackets.count(b"\n")
    if _one_record_each(brackets, lines, block[start : start + 3]) and _all_dull(block, start, end, lines):
        return first + lines
    if end - start <= _SMALL or lines < 2:
        return _look(block[start:end], first, found)
    middle = block.find(b"\n", (start + end) // 2, end) + 1
    if middle <= start or middle >= end:
        middle = block.rfind(b"\n", start, (start + end) // 2) + 1
        if middle <= start:
            return _look(block[start:end], first, found)
    return _sift(block, middle, end, _sift(block, start, middle, first, found), found)


def _one_record_each(brackets: bytes, lines: int, begin: bytes) -> bool:
    """Whether no line is several records: none has two brackets, or each has two, a transport's and a stamp's."""
    return b"]]" not in brackets or (begin != b"[20" and brackets == b"]]\n" * lines)


def _all_dull(block: bytes, start: int, end: int, lines: int) -> bool:
    """Whether there are as many batch and access records as lines."""
    if _ends_in_decode_lines(block, start, end) and lines == block.count(_DECODE, start, end):
        return True
    dull = block.count(_BATCH, start, end)
    return lines == dull or (dull > 0 and lines == dull + block.count(_ACCESS, start, end))


def _ends_in_decode_lines(block: bytes, start: int, end: int) -> bool:
    tail = block[max(start, end - _SMALL) : end]
    return 0 < tail.count(b"\n") - tail.count(_DECODE) + 1 <= 2


def _look(part: bytes, first: int, found: list[tuple[int, bytes]]) -> int:
    lines = part.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, first):
        if interesting(line):
            found.append((number, line))
    return first + len(lines)


def _stamped(raw: bytes) -> bool:
    """A record in SGLang's plain form, `[2026-11-29 13:16:25…] `, possibly behind a transport's words."""
    start = raw.find(b"[20", 0, 80)
    return start >= 0 and raw[start + 5 : start + 6] == b"-" and raw[start + 14 : start + 15] == b":"
