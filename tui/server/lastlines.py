"""The last lines of a log, fit to be shown: no control characters, no secrets."""

import os
from collections.abc import Iterable
from pathlib import Path

from tui.patterns import lazy
from tui.sglang.secrets import MASK, mask_text

_TAIL_BYTES = 64 << 10
_LONGEST_LINE = 400
_ESCAPES = lazy(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_lines(log: Path, count: int = 20, secrets: Iterable[str] = ()) -> list[str]:
    """The last `count` lines that say something, oldest first; of a progress bar its last state. [] when unreadable.

    `secrets` are values known to be secret; what looks like one is masked anyway.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    for secret in secrets:
        text = text.replace(secret, MASK)
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    clean = (clean_line(line)[:_LONGEST_LINE] for line in lines)
    return [line for line in clean if line][-count:]


def clean_line(line: str) -> str:
    """Text from outside, fit for a terminal: escape sequences and control characters out, secrets masked."""
    return mask_text(_ESCAPES.sub("", line.replace("\n", " "))).rstrip()
