"""Bytes of a log into lines of text: split on LF only, decoded line by line, with a cap on monstrous lines.

CR stays inside the text (progress bars), NULs and every other control character too: whoever displays a line makes them
harmless. Bytes that are no UTF-8 become U+FFFD within their own line.
"""

import codecs
from collections.abc import Iterable

Part = str | bytes
"""Text of one line, or the bytes of whole lines, each with its newline."""
CAP_BYTES = 64 * 1024
"""A line up to this long is kept whole."""
KEPT_HEAD_BYTES = 48 * 1024
KEPT_TAIL_BYTES = 16 * 1024

_incremental = codecs.getincrementaldecoder("utf-8")


def decode_start(data: bytes) -> tuple[str, int]:
    """Decode bytes whose last character may be cut: the text, and how many bytes of that character are left out."""
    decoder = _incremental("replace")
    return decoder.decode(data), len(decoder.getstate()[0])


def clip(head: bytes, tail: bytes, total: int) -> str:
    """Text of a line of `total` bytes of which only both ends are at hand. The marker counts the bytes between them.

    The end is kept because SGLang glues records behind progress bars that print no newline.
    """
    before, left_out = decode_start(head)
    start = 0
    while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:
        start += 1
    cut = total - (len(head) - left_out) - (len(tail) - start)
    return f"{before} [… {cut} bytes cut …] {tail[start:].decode('utf-8', 'replace')}"


def line_text(line: bytes) -> str:
    """Text of one whole line without its newline, clipped beyond `CAP_BYTES`."""
    if len(line) <= CAP_BYTES:
        return line.decode("utf-8", "replace")
    return clip(line[:KEPT_HEAD_BYTES], line[-KEPT_TAIL_BYTES:], len(line))


def split_lines(body: bytes) -> list[str]:
    """Texts of the lines in `body`, which has no newline at its end; empty `body` is one empty line."""
    texts = body.decode("utf-8", "replace").split("\n")
    # A character stands for at most four bytes, so this rules out a long line without looking at each of them.
    if len(body) <= CAP_BYTES or max(map(len, texts)) * 4 <= CAP_BYTES:
        return texts
    return [line_text(line) for line in body.split(b"\n")]


def lines_of(parts: Iterable[Part]) -> list[str]:
    """Texts of the lines, in order."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            texts += split_lines(part[:-1])
    return texts


def count_lines(parts: Iterable[Part]) -> int:
    """How many lines these are."""
    return sum(1 if isinstance(part, str) else part.count(b"\n") for part in parts)


class LineSplitter:
    """Turns slices of a stream, cut anywhere, into lines. Of an unfinished line it holds a little over `CAP_BYTES`."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    @property
    def pending_bytes(self) -> int:
        """Length of the unfinished last line."""
        return self._total

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes; give the lines they complete."""
        return lines_of(self.cut(data))

    def cut(self, data: bytes) -> list[Part]:
        """Like `feed`, but what lies whole in `data` is left undecoded."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return []
        parts: list[Part] = []
        start = 0
        if self._total:
            start = data.find(b"\n") + 1
            self._keep(data[: start - 1])
            parts.append(self._text())
            self._forget()
        if start < end:
            parts.append(data[start:end])
        self._keep(data[end:])
        return parts

    def partial(self) -> str:
        """Text of the unfinished line so far; a character of which only some bytes have come is left out."""
        if self._total > CAP_BYTES:
            return self._text()
        return decode_start(bytes(self._head))[0]

    def flush(self) -> list[str]:
        """End of the stream: the unfinished line, if any, is a line."""
        if not self._total:
            return []
        text = self._text()
        self._forget()
        return [text]

    def _text(self) -> str:
        if self._total <= CAP_BYTES:
            return self._head.decode("utf-8", "replace")
        end = (self._head[KEPT_HEAD_BYTES:] + self._tail)[-KEPT_TAIL_BYTES:]
        return clip(bytes(self._head[:KEPT_HEAD_BYTES]), bytes(end), self._total)

    def _keep(self, data: bytes) -> None:
        self._total += len(data)
        room = CAP_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-KEPT_TAIL_BYTES:]
        if len(self._tail) > 4 * KEPT_TAIL_BYTES:
            del self._tail[:-KEPT_TAIL_BYTES]

    def _forget(self) -> None:
        self._head.clear()
        self._tail.clear()
        self._total = 0
