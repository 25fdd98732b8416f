"""Copying from a terminal that may be far away: OSC 52 with a cap, and a file for what is too much or refused."""

import os
import tempfile
from pathlib import Path

# tmux and mosh drop larger payloads without a word.
MOST_BYTES = 70_000


def fits(text: str) -> bool:
    """Whether OSC 52 can be trusted with this much."""
    return len(text.encode("utf-8", "replace")) * 4 // 3 <= MOST_BYTES


def save(text: str, folder: Path, name: str = "copied.txt") -> Path:
    """Write `text` to a file only the operator can read, atomically; OSError when it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        path = folder / name
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def hint() -> str:
    """What to do when nothing arrives in the clipboard."""
    if os.environ.get("TMUX"):
        return "copied (tmux needs `set -g set-clipboard on`)"
    return "copied"
