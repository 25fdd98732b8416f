"""Takes a raw log line apart: transport prefixes off, progress bars and glued records separated, stamp and rank read.

SGLang's own prefix is `[%Y-%m-%d %H:%M:%S{tags}] message` (`utils/common.py:configure_logger`); what carries a log to
the reader (compose, Kubernetes, Ray, Slurm, syslog, torchrun) puts words before it, and tqdm bars glue to it.
"""

import json
import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tui.patterns import lazy

MAX_LINE = 1 << 19  # longer lines are not SGLang's; the rest is dropped
MAX_PIECES = 2000  # of a line that redraws a bar with \r; the last ones count

_STAMP = lazy(
    r"(?P<open>\[)?(?:(?P<date>\d{4}-\d\d-\d\d)[ T]|\d\d-\d\d )?(?P<time>\d\d:\d\d:\d\d)(?P<ms>[.,]\d{1,6})?"
    r"(?P<tags>(?: [A-Z][A-Z_]{1,15}\d{1,6}){0,8})(?P<close>\])?",
    re.ASCII,
)
_ANSI = lazy(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
# Colour codes whose escape character a clipboard or web form swallowed.
_BARE_COLOUR = lazy(r"\[(?:0|1|2|3\d|9\d)?(?:;\d{1,2})?m(?!\])")
_RAY = lazy(r"\((?P<actor>[A-Za-z_][\w.:]{0,80} pid=\d{1,10})(?:, ip=[\w.:]{1,60})?\) ?")
_RAY_REPEATED = lazy(r"\s*\[repeated \d+x across cluster\][^\n]*$")
# In turn: kubectl --prefix; docker -t and CRI; syslog; torchrun; docker compose; srun --label.
_TRANSPORT = lazy(
    r"""(?:
      (?P<pod>\[pod/[^\]\s]{1,200}\])\x20?
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)\x20?(?:std(?:out|err)\x20[FP]\x20)?
    | [A-Z][a-z]{2}\x20[ \d]\d\x20\d\d:\d\d:\d\d\x20[\w.-]{1,80}\x20[\w./@-]{1,80}(?:\[\d+\])?:\x20
    | (?P<torchrun>\[(?:rank|default|[\w.-]{0,40}worker)\d{1,6}\]):\x20?
    | (?P<service>[A-Za-z][\w.@/-]{0,80})\x20{0,60}\|\x20?
    | \x20{0,4}(?P<task>\d{1,5}):\x20
    )""",
    re.VERBOSE | re.ASCII,
)
_TAG = lazy(r" (DP|PP|TP)(\d+)")


class Record(NamedTuple):
    """One record, or a piece of a line without a stamp. `at`: Unix seconds of a full stamp (local time), else None."""

    message: str
    stamped: bool = False
    at: float | None = None
    rank: str | None = None
    source: str | None = None  # which process a transport says it came from, e.g. "SGLangWorker pid=38138"


@lru_cache(maxsize=4096)
def rank_of(tags: str) -> str | None:
    """Canonical rank of a prefix's tags: " PP0 TP1 EP1" -> "PP0 TP1", in the order DP, PP, TP; None without these.

    A tag printed by SGLang is either one of these or says which expert/context group the rank is in, which TP implies.
    """
    found = dict(_TAG.findall(tags))
    return " ".join(f"{name}{int(found[name])}" for name in ("DP", "PP", "TP") if name in found) or None


@lru_cache(maxsize=256)
def stamp_seconds(text: str) -> float | None:
    """Unix seconds of "2026-11-29 13:16:25[.123]" read as local time, None when it is no date."""
    try:
        return datetime.fromisoformat(text.replace(",", ".")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def quick_record(text: str) -> Record | None:
    """The record of a line in SGLang's plain form `[2026-11-29 13:16:25 TP0] message`; None: take it apart properly."""
    end = text.find("] ", 20, 100)
    if end < 0 or text[0] != "[" or text[5] != "-" or text[11] != " ":
        return None
    at = stamp_seconds(text[1:20])
    if at is None:
        return None
    tags = text[20:end]
    if not tags:
        return Record(text[end + 2 :], True, at)
    if tags[0] != " ":
        return None
    return Record(text[end + 2 :], True, at, rank_of(tags))


class Splitter:
    """Splits raw lines into records. It remembers the words a transport put before the last stamped record."""

    def __init__(self) -> None:
        self._learned = ""
        self._candidate = ""

    def split(self, text: str) -> list[Record]:
        """The records of one raw line, in order."""
        text = _unwrap_json(text[:MAX_LINE])
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        if "m" in text and "[" in text:
            text = _BARE_COLOUR.sub("", text)
        records: list[Record] = []
        for piece in _pieces(text):
            if " pid=" in piece:
                self._split_ray(piece, records)
            else:
                self._split_piece(piece, None, records)
        return records

    def _split_ray(self, piece: str, records: list[Record]) -> None:
        source: str | None = None
        start = 0
        for match in _RAY.finditer(piece):
            if match.start() > start:
                self._split_piece(piece[start : match.start()].rstrip(" "), source, records)
            source, start = match["actor"], match.end()
        self._split_piece(_RAY_REPEATED.sub("", piece[start:]), source, records)

    def _split_piece(self, piece: str, source: str | None, records: list[Record]) -> None:
        body, who = self._without_transport(piece)
        source = source or who
        stamps = [match for match in _STAMP.finditer(body) if _is_stamp(match)]
        if not stamps:
            records.append(Record(body, source=source))
            return
        before = body[: stamps[0].start()]
        if before.strip():
            self._learn(before)
            records.append(Record(before, source=source))
        for match, following in zip(stamps, [*stamps[1:], None], strict=True):
            message = body[match.end() : following.start() if following else len(body)]
            at = stamp_seconds(f"{match['date']} {match['time']}{match['ms'] or ''}") if match["date"] else None
            message = message[1:] if message.startswith(" ") else message
            records.append(Record(message, True, at, rank_of(match["tags"]), source))

    def _without_transport(self, piece: str) -> tuple[str, str | None]:
        """The piece without the words of transports, and which process they name."""
        start = 0
        who: str | None = None
        for _ in range(4):
            match = _TRANSPORT.match(piece, start)
            if match is None:
                break
            start = match.end()
            who = who or next((name for name in match.groups() if name), None)
        if self._learned and piece.startswith(self._learned, start):
            start += len(self._learned)
        return piece[start:], who

    def _learn(self, before: str) -> None:
        """The same words before two stamps in turn are a transport's; once may be the rest of a bar or of a record."""
        if len(before) > 64 or "%" in before or "it/s" in before or "s/it" in before:
            return
        if before == self._candidate:
            self._learned = before
        self._candidate = before


def _pieces(text: str) -> list[str]:
    r"""The parts between \r, of which a progress bar makes many; blank ones say nothing."""
    if "\r" not in text and "\n" not in text:
        return [text]
    return [piece for piece in text.replace("\r", "\n").split("\n") if piece.strip()][-MAX_PIECES:]


def _is_stamp(match: re.Match[str]) -> bool:
    """Either bracket may be lost, but a bare time of day in running text is no stamp."""
    opened, closed = match["open"] is not None, match["close"] is not None
    if match["date"]:
        return opened or closed
    return closed and (bool(match["tags"]) or (opened and match.start() == 0))


def _unwrap_json(text: str) -> str:
    """A line of Docker's json-file driver holds the real line under "log"."""
    if not text.startswith('{"log":'):
        return text
    try:
        line = json.loads(text)["log"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
    return line.rstrip("\n") if isinstance(line, str) else text
