"""A log line as it is drawn: what kind it is at a glance, and its text without anything a terminal acts upon."""

import re

from rich.cells import get_character_cell_size

from tui.app.text import escape, width_of

Run = tuple[str, str]

# Requests that a monitor makes all day, ours among them.
POLL = (
    rb'"GET /(?:v1/loads|metrics|ready|health|health_generate|get_load|server_info|get_server_info|model_info'
    rb"|get_model_info)(?:\?\S*)? HTTP/1\."
)
_POLL = re.compile(POLL.decode())
_ERROR = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Fatal|Traceback|Segmentation fault|Killed|sigquit|SIG(?:KILL|QUIT|ABRT|SEGV))\b"
    r"|(?:Error|Exception|error|OutOfMemory\w*):|Scheduler hit an exception"
)
_WARNING = re.compile(r"\bWARN(?:ING)?\b|[Ww]arning:|[Dd]eprecat")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
LOOKED_AT = 2000  # characters of a line that decide its kind
MOST_WRAPPED = 16 * 1024  # characters of a wrapped line that are drawn


def last_state(text: str) -> str:
    """Of a progress bar that redraws itself with \\r only what it showed last."""
    if "\r" not in text:
        return text
    return next((part for part in reversed(text.split("\r")) if part.strip()), "")


def kind_of(text: str) -> str:
    """The style of a line: "bad", "warn", "quiet" (decode, prefill, requests), "faint" (polling) or "plain"."""
    text = text[:LOOKED_AT]
    if "#running-req" in text:
        return "quiet"
    if " HTTP/1." in text:
        return "faint" if _POLL.search(text) else "quiet"
    if "server_args=" in text:
        return "plain"
    if _ERROR.search(text):
        return "bad"
    return "warn" if _WARNING.search(text) else "plain"


def harmless(text: str, most: int) -> str:
    """The line's last state, without colour codes, every other control character made visible."""
    text = last_state(text)
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    return escape(text[:most], most + 1)


def clipped(text: str, left: int, width: int, ellipsis: str) -> str:
    """The cells from `left` on that fit in `width`, with an ellipsis where text is left out."""
    shown = harmless(text, left + 4 * width + 64)
    if left:
        shown = ellipsis + _without(shown, left + 1)
    if width_of(shown) <= width:
        return shown
    return _cells(shown, width - 1)[0] + ellipsis


def wrapped(text: str, width: int) -> list[str]:
    """The whole line in pieces of at most `width` cells."""
    shown = harmless(text, MOST_WRAPPED)
    if width_of(shown) <= width:
        return [shown]
    pieces: list[str] = []
    while shown:
        piece, shown = _cells(shown, max(2, width))
        pieces.append(piece)
    return pieces


def highlighted(text: str, style: str, pattern: re.Pattern[str] | None) -> list[Run]:
    """Runs of `text` in which what matches stands out."""
    if pattern is None:
        return [(text, style)]
    runs: list[Run] = []
    place = 0
    for match in pattern.finditer(text):
        if match.end() == match.start():
            continue
        runs += [(text[place : match.start()], style), (match[0], "cursor")]
        place = match.end()
    return [run for run in [*runs, (text[place:], style)] if run[0]]


def _without(text: str, cells: int) -> str:
    if text.isascii():
        return text[cells:]
    for i, char in enumerate(text):
        if cells <= 0:
            return text[i:]
        cells -= get_character_cell_size(char)
    return ""


def _cells(text: str, width: int) -> tuple[str, str]:
    """The first `width` cells, and the rest."""
    if text.isascii():
        return text[:width], text[width:]
    room = width
    for i, char in enumerate(text):
        room -= get_character_cell_size(char)
        if room < 0:
            return text[:i], text[i:]
    return text, ""
