"""A screen of nothing but ASCII, whatever is drawn on it: borders, arrows, other people's log lines."""

from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# One cell each, as what they stand for.
_SIGNS = {
    **dict.fromkeys("–—‐‑−─━╌═▔▁", "-"),
    **dict.fromkeys("│┃┆┊║▌▐▏▕", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼", "+"),
    **dict.fromkeys("█▉▊▋▇▆▅▄▃▂▀▓▒■", "#"),
    **dict.fromkeys("‘’´", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("·•∙●░□", "."),
    "…": "~", "×": "x", "✗": "X", "✓": "v", "°": " ", "µ": "u", "±": "~", "≈": "~",
    "↑": "^", "↓": "v", "→": ">", "←": "<", "▸": ">", "▶": ">", "◂": "<", "◀": "<", "▲": "^", "▼": "v",
    "\u00a0": " ", "\u202f": " ",
}  # fmt: skip


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """`text` in as many cells, each of them ASCII; ? is what there is no sign for."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _SIGNS.get(char) or "?" * get_character_cell_size(char) for char in text)


class Plain(LineFilter):
    """The last thing that happens to a line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(plain(text), style, control) for text, style, control in segments]
