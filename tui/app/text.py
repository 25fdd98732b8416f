"""Text for the screen: hostile strings made harmless, numbers with their units, cells counted rightly.

Everything that did not come from specdeck's own source (model names, process names, errors, profile texts) goes
through `escape` before it is drawn, and is drawn as plain text, never as markup.
"""

import unicodedata

from rich.cells import cell_len, get_character_cell_size

from tui.wording import count as count

DASH = "–"  # "not known"
MOST_CHARS = 4096  # of one string: a 10 MB name is cut before it costs anything
# Format and control characters, lone surrogates, private use, unassigned, line and paragraph separators: what a
# terminal may act upon, or draw with a width that nobody can foresee.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me"})


def escape(text: str, most: int = MOST_CHARS) -> str:
    """`text` on one line with every character that is not plainly printable written as \\xNN or \\uNNNN."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _harmless(char) else _code(char) for char in unicodedata.normalize("NFC", text))


def _harmless(char: str) -> bool:
    code = ord(char)
    if code < 0x7F:
        return code >= 0x20
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:  # variation selectors change a glyph's width
        return False
    return unicodedata.category(char) not in _UNSAFE


def _code(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return " "
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width_of(text: str) -> int:
    """Cells that `text` takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, cut with an ellipsis."""
    if width <= 0:
        return ""
    if width_of(text) <= width:
        return text
    room = width - width_of(ellipsis)
    if room < 0:
        return ""
    kept: list[str] = []
    for char in text:
        room -= get_character_cell_size(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + ellipsis


def pad(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells; `right` aligns it to the right."""
    text = fit(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def wrap(text: str, width: int, most: int | None = None) -> list[str]:
    """Words of `text` on lines of at most `width` cells; a word that is too long is broken.

    On at most `most` lines, where that is given: the last of them holds what is left, cut.
    """
    if width <= 0:
        return []
    lines: list[str] = []
    line = ""
    for word in text.split():
        while width_of(word) > width:
            if line:
                lines.append(line)
                line = ""
            head = fit(word, width, "") or word[0]
            lines.append(head)
            word = word[len(head) :]
        if not line:
            line = word
        elif width_of(line) + 1 + width_of(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    lines += [line] if line else []
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], fit(" ".join(lines[most - 1 :]), width)] if most > 0 else []


def gib(value: float | None, digits: int = 2) -> str:
    """A number of GiB without the unit; – when not known."""
    return DASH if value is None else f"{value:.{digits}f}"


def number(value: float | None, digits: int = 1) -> str:
    """A number; – when not known."""
    return DASH if value is None else f"{value:.{digits}f}"


def percent(fraction: float | None) -> str:
    """0.873 -> "87%"; – when not known. Never 100 % for less than all, nor 0 % for more than nothing."""
    if fraction is None:
        return f"{DASH}%"
    whole = round(fraction * 100)
    if whole >= 100 and fraction < 1:
        whole = 99
    if whole <= 0 and fraction > 0:
        whole = 1
    return f"{whole}%"


def duration(seconds: float | None) -> str:
    """12 s, 12m04s, 3h05m, 2d04h; – when not known."""
    if seconds is None:
        return DASH
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def value(setting: object) -> str:
    """A knob's value as on a command line, harmless."""
    if setting is None:
        return "not set"
    if isinstance(setting, bool):
        return "on" if setting else "off"
    if isinstance(setting, (list, tuple)):
        return escape(" ".join(str(item) for item in setting))
    return escape(str(setting))
