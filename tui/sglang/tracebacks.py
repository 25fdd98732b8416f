"""Assembles Python tracebacks from log lines, one per failing rank, however their lines interleave.

Only the head of a record carries SGLang's stamp ("[… TP1] Scheduler hit an exception: Traceback (most recent call
last):"), its other lines belong to the traceback that was opened or continued last. A py-spy or faulthandler dump is no
traceback.
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from tui.facts import Traceback
from tui.patterns import lazy
from tui.sglang.prefix import Record
from tui.sglang.problems import clean_text

MAX_OPEN = 64
MAX_FRAMES = 120
MAX_CHAIN = 16
MAX_MESSAGE = 4000
MAX_MESSAGE_LINES = 60
# Stamped records that may come between the lines of an unfinished traceback before it counts as cut off.
MAX_STRANGERS = 8

_HEAD = lazy(r"(?:Exception Group )?Traceback \(most recent call last\):?")
_FRAME = lazy(
    r'^(?P<indent>\s*)File "(?P<file>[^"\n]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?\s*$'
)
_CHAINED = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
_EXCEPTION = lazy(r"^(?P<type>[^\W\d][\w.]{0,200})(?:: ?(?P<message>.*)|\s*)$", re.DOTALL)
_ERROR_NAME = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failure|Timeout|Expired|Broken\w*|Cancelled\w*|Group|Abort\w*|Empty"
    r"|Full|Again|error|timeout|herror|gaierror)$"
)
_NO_ERROR_NAMES = frozenset(
    ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL", "NOTE", "usage", "Killed", "Process")
)
# Words that programs put before any message.
_BARE_NAMES = frozenset(("Error", "error", "Failure", "Timeout", "Exit", "Aborted", "Abort", "Group", "Full", "Empty"))
# What ends the message of a finished traceback although it carries no stamp.
_FOREIGN = lazy(
    r"^\s*(?:\d{1,3}%\||Loading \S+ checkpoint shards|Capturing |Multi-thread loading|\S+: line \d+: "
    r"|\S+:\d+: \w*Warning: |\[[WEIF]\d{3,4} |\[rank\d+\]:\[|\S+:\d+:\d+ \[\d+\] NCCL |Process \d+: "
    r"|Thread (?:\d|0x)|Fatal Python error|usage: |INFO: )"
)
_GROUP_BAR = lazy(r"^\s*(?:[|+] ?)?")
_GROUP_RULE = lazy(r"^\s*\+-[-+]*[- ]*(?:\d+|\.\.\.)? ?-*\s*$|^\s*\+-+\s*$")
_PATH_ROOT = lazy(r"^.*/(?:site-packages|dist-packages|lib/python3\.\d+|sglang/python)/")


class Kind(Enum):
    """What a line was to the assembler."""

    OUTSIDE = "outside"  # not part of a traceback
    FRAME = "frame"  # head, frame, source line, caret
    MESSAGE = "message"  # exception line or a further line of its message


@dataclass(slots=True, eq=False)
class _Open:
    line: int
    at: float
    rank: str | None
    source: str | None
    last_line: int
    head_cut: bool = False
    group: bool = False
    flat: bool = False  # the indentation was lost
    after_frame: bool = False
    chained: bool = False
    strangers: int = 0
    type: str | None = None
    message: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    chain: list[str] = field(default_factory=list)
    subs: list[str] = field(default_factory=list)  # of an exception group

    def fact(self) -> Traceback:
        return Traceback(
            at=self.at,
            line=self.line,
            rank=self.rank,
            last_line=self.last_line,
            exception=self.type,
            message=clean_text("\n".join(self.message)),
            chain=tuple((*self.chain, *self.subs)[:MAX_CHAIN]),
            where=tuple(self.where),
            head_cut=self.head_cut,
        )

    def title(self) -> str:
        return clean_text(f"{self.type}: {self.message[0]}" if self.message and self.message[0] else f"{self.type}")[
            :500
        ]

    def add_frame(self, match: re.Match[str]) -> None:
        self.flat = not match["indent"]
        self.after_frame = True
        file = _PATH_ROOT.sub("", match["file"])
        text = clean_text(f"{match['function'] or '<module>'} ({file}:{match['line']})")
        if len(self.where) >= MAX_FRAMES:  # deep recursion: the outermost and the innermost frames say what happened
            del self.where[MAX_FRAMES // 2]
        self.where.append(text)

    def add_message(self, text: str) -> None:
        if len(self.message) < MAX_MESSAGE_LINES:
            self.message.append(text[:MAX_MESSAGE])

    def begin_next(self) -> None:
        """The exception that follows was raised from, or while handling, the one that is complete now."""
        if self.type is not None and len(self.chain) < MAX_CHAIN:
            self.chain.append(self.title())
        self.type, self.message, self.where, self.chained, self.after_frame = None, [], [], True, False


class TracebackAssembler:
    """Feed it every record in order; it gives each traceback once, when its end is known."""

    def __init__(self) -> None:
        self._open: list[_Open] = []  # the one continued last is at the end
        self._settled: list[_Open] = []  # given already; only an exception raised from them would continue them

    @property
    def busy(self) -> bool:
        """Whether a line without any known word may still belong to a traceback."""
        return bool(self._open or self._settled)

    def feed(self, record: Record, number: int, at: float) -> tuple[Kind, str | None, list[Traceback]]:
        """What the record is, whose rank it belongs to, and the tracebacks that it ends."""
        if self._settled and record.message.strip():
            self._reopen(record)
        head = _HEAD.search(record.message) if "Traceback (most" in record.message else None
        if head is not None:
            return Kind.FRAME, record.rank, self._head(record, head, number, at)
        if record.stamped:
            return self._stamped(record, number)
        return self._continued(record, number, at)

    @property
    def told(self) -> bool:
        """Whether an open traceback has its exception, so that only more of its message could follow."""
        return any(opened.type is not None for opened in self._open)

    def first_line(self, number: int) -> int | None:
        """Of the open traceback to which line `number`, the latest one, belongs. None: that one is closed already."""
        return next((opened.line for opened in reversed(self._open) if opened.last_line == number), None)

    def settle(self) -> list[Traceback]:
        """Ends the tracebacks that have their exception.

        Of one that goes on all the same, with the next exception of its chain, the whole is given once more.
        """
        complete = [opened for opened in self._open if opened.type is not None]
        self._settled = complete or self._settled
        return self._close(complete)

    def _reopen(self, record: Record) -> None:
        settled, self._settled = self._settled, []
        if not record.stamped and any(phrase in record.message for phrase in _CHAINED):
            self._open += [opened for opened in settled if opened.source == record.source][-1:]

    def finish(self) -> list[Traceback]:
        """Ends every open traceback."""
        return self._close(list(self._open))

    def _head(self, record: Record, head: re.Match[str], number: int, at: float) -> list[Traceback]:
        current = None if record.stamped else self._current(record.source)
        if current is not None and (
            current.chained or (current.group and record.message[: head.start()].strip(" |+") == "")
        ):
            current.last_line = number
            if current.group and not current.chained:
                current.after_frame = False
            current.chained = False
            return []
        if record.stamped:
            done = self._close([o for o in self._open if o.type is not None or self._same(o, record)])
        else:
            done = self._close([current]) if current is not None else []
        if len(self._open) >= MAX_OPEN:
            done += self._close([self._open[0]])
        opened = _Open(number, at, record.rank, record.source, number, group="Group" in head[0])
        self._open.append(opened)
        rest = record.message[head.end() :]
        if "\\n" in rest:  # a whole traceback in one line, its line breaks escaped
            for part in rest.split("\\n"):
                self._continued(Record(part, source=record.source), number, at)
        return done

    def _stamped(self, record: Record, number: int) -> tuple[Kind, str | None, list[Traceback]]:
        if not self._open:
            return Kind.OUTSIDE, record.rank, []
        frame = _FRAME.match(record.message)
        if frame is not None:
            for candidate in reversed(self._open):
                if candidate.type is None and candidate.rank == record.rank:
                    candidate.last_line = number
                    candidate.add_frame(frame)
                    return Kind.FRAME, record.rank, []
        ended = []
        for candidate in self._open:
            candidate.strangers += 1
            if candidate.type is not None or candidate.strangers > MAX_STRANGERS:
                ended.append(candidate)
        return Kind.OUTSIDE, record.rank, self._close(ended)

    def _continued(self, record: Record, number: int, at: float) -> tuple[Kind, str | None, list[Traceback]]:
        current = self._current(record.source)
        text = record.message
        if current is None:
            return self._headless(record, number, at)
        done: list[Traceback] = []
        if current.type is not None and _FRAME.match(text) and (other := self._interrupted(record.source)):
            done, current = self._close([current]), other
        if current.type is None:
            kind = self._unfinished(current, text)
        else:
            kind, done = self._finished(current, text)
        if kind is Kind.OUTSIDE:
            if done or current.type is not None or self._looks_headless(text):
                outer, rank, more = self._headless(record, number, at)
                return outer, rank, done + more
            return kind, record.rank, done + self._estranged(current)
        if text.strip():
            current.last_line = number
        return kind, current.rank, done

    def _estranged(self, current: _Open) -> list[Traceback]:
        """Lines without a stamp that are no part of it count as well."""
        current.strangers += 1
        return self._close([current]) if current.strangers > MAX_STRANGERS * 4 else []

    def _unfinished(self, current: _Open, text: str) -> Kind:
        if current.group:
            if _GROUP_RULE.match(text):
                return Kind.FRAME
            text = _GROUP_BAR.sub("", text, count=1) if text.lstrip()[:1] in ("|", "+") else text
        frame = _FRAME.match(text)
        if frame is not None:
            current.add_frame(frame)
            current.chained = False
            return Kind.FRAME
        if not text.strip():
            return Kind.FRAME
        if any(phrase in text for phrase in _CHAINED):
            current.begin_next()
            return Kind.FRAME
        if text[0] in " \t" or text.startswith(("[Previous line repeated", "^", "~")):
            return Kind.FRAME
        match = _EXCEPTION.match(text)
        if match is not None and _is_exception(match, strict=current.flat):
            current.type = match["type"]
            current.add_message(match["message"] or "")
            current.strangers = 0
            return Kind.MESSAGE
        if current.flat and current.after_frame:  # a source line that lost its indentation
            current.after_frame = False
            return Kind.FRAME
        return Kind.OUTSIDE

    def _finished(self, current: _Open, text: str) -> tuple[Kind, list[Traceback]]:
        if any(phrase in text for phrase in _CHAINED):
            current.begin_next()
            return Kind.FRAME, []
        if current.group and text.lstrip()[:1] in ("|", "+"):
            self._grouped(current, text)
            return Kind.MESSAGE, []
        if _FOREIGN.match(text) or len(current.message) >= MAX_MESSAGE_LINES:
            return Kind.OUTSIDE, self._close([current])
        current.add_message(text)
        return Kind.MESSAGE, []

    def _grouped(self, current: _Open, text: str) -> None:
        """A line of a sub-exception: only its last line, the exception, is kept."""
        inner = text.lstrip(" |+-0123456789.")
        match = _EXCEPTION.match(inner)
        if match is not None and _is_exception(match, strict=True) and len(current.subs) < MAX_CHAIN:
            current.subs.append(clean_text(inner)[:500])

    def _headless(self, record: Record, number: int, at: float) -> tuple[Kind, str | None, list[Traceback]]:
        """A frame or an exception line without an open traceback: its beginning was cut off."""
        frame = _FRAME.match(record.message)
        match = None if frame is not None else _EXCEPTION.match(record.message)
        if frame is None and (match is None or not _is_exception(match, strict=True)):
            return Kind.OUTSIDE, record.rank, []
        opened = _Open(number, at, record.rank, record.source, number, head_cut=True)
        done = self._close([self._open[0]]) if len(self._open) >= MAX_OPEN else []
        self._open.append(opened)
        if frame is not None:
            opened.add_frame(frame)
            return Kind.FRAME, record.rank, done
        assert match is not None
        opened.type = match["type"]
        opened.add_message(match["message"] or "")
        return Kind.MESSAGE, record.rank, done

    def _looks_headless(self, text: str) -> bool:
        match = _EXCEPTION.match(text)
        return match is not None and _is_exception(match, strict=True)

    def _current(self, source: str | None) -> _Open | None:
        for candidate in reversed(self._open):
            if candidate.source == source:
                return candidate
        return None

    def _interrupted(self, source: str | None) -> _Open | None:
        """The traceback of another rank whose frames are still coming."""
        return next((o for o in reversed(self._open) if o.type is None and o.source == source), None)

    def _same(self, opened: _Open, record: Record) -> bool:
        return opened.rank == record.rank and opened.source == record.source

    def _close(self, ended: list[_Open]) -> list[Traceback]:
        self._open = [candidate for candidate in self._open if candidate not in ended]
        return [candidate.fact() for candidate in ended]


def _is_exception(match: re.Match[str], strict: bool) -> bool:
    """Whether "Name: text" is an exception. Strict: the name itself must say so."""
    name, message = match["type"], match["message"]
    if name in _NO_ERROR_NAMES or name.endswith("Warning"):
        return False
    if strict and name in _BARE_NAMES:
        return False
    if _ERROR_NAME.search(name):
        return name.rsplit(".", 1)[-1] not in ("error", "timeout", "Empty", "Full", "Again") or "." in name
    if strict or message is None:
        return False
    return "." in name or (name[0].isupper() and not name.isupper())
