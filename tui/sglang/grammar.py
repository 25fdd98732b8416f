"""The log reader's memory: raw lines in, facts out, in order.

It remembers what a single line does not say: the last stamp, open tracebacks, whether a graph capture is under way (for
progress bars without a title), and which version hints were given.
"""

from tui.facts import (
    CaptureProgress,
    DecodeBatch,
    Fact,
    GraphBegin,
    GraphEnd,
    LoadProgress,
    LogFact,
    ServerArgs,
    Traceback,
)
from tui.sglang.gates import gate
from tui.sglang.hints import Hinter, exact_version
from tui.sglang.logline import read_record
from tui.sglang.prefix import Record, Splitter, quick_record
from tui.sglang.problems import recognise
from tui.sglang.serving_lines import quick_decode, read_decode, read_prefill
from tui.sglang.startup_lines import bare_bar
from tui.sglang.tracebacks import Kind, TracebackAssembler

# With --log-requests SGLang logs whole requests: what a user wrote to the model is no log line.
_REQUESTS = ("Receive: obj=", "Finish: obj=")

_ANNOUNCED = ("hit an exception", "Initialization failed")
_MOST_INSIDE = 100
MOST_RANKS = 4096  # of a whole cluster's ranks in one log there are fewer; whoever invents more fills the memory


class LogGrammar:
    """Turns the lines of one log into facts. Pure: the same lines give the same facts. It never raises.

    `feed` every line once, in order; `finish` when the log will not grow soon (the server exited, the file ended):
    it ends open tracebacks. `settle` when it has not grown for a moment: it ends those that lack nothing, for which
    `waits` is true. Feeding may go on afterwards.
    """

    def __init__(self) -> None:
        self._may_matter = gate()
        self._splitter = Splitter()
        self._tracebacks = TracebackAssembler()
        self._inside: dict[int, list[Fact]] = {}  # what open tracebacks say, by their first lines
        self._hinter = Hinter()
        self._stamp: float | None = None
        self._recent = ""  # an unknown stamped line: its stamp is read only if somebody asks
        self._captures = 0
        self._batch_sizes: dict[str | None, tuple[int, ...]] = {}
        self._ranks: set[str | None] = {None}
        self._hinted: set[type[LogFact]] = set()  # of a busy server's lines the first one is asked for its version

    def feed(self, number: int, text: str, seen_at: float) -> list[Fact]:
        """The facts of line `number` (1-based), `text` without its newline.

        `seen_at`: Unix seconds, the time of a line before which no stamp was seen.
        """
        if "Decode batch" in text or "Prefill batch" in text:
            facts = self._serving(number, text)
            if facts is not None:
                return facts
        elif not self._may_matter(text) and not self._tracebacks.busy:
            if text[:1] == "[":
                self._recent = text
            return []
        facts = []
        if "obj=" in text and any(words in text for words in _REQUESTS):
            return facts
        for record in self._splitter.split(text):
            self._record(number, record, seen_at, facts)
        return _last_of_each_bar(facts)

    @property
    def waits(self) -> bool:
        """Whether a traceback is complete unless the next line belongs to it."""
        return self._tracebacks.told

    def settle(self) -> list[Fact]:
        """Ends what is complete."""
        return self._whole(self._tracebacks.settle())

    def finish(self, seen_at: float) -> list[Fact]:
        """Ends what is open. `seen_at` is not used by tracebacks, which carry the time of their head."""
        return self._whole(self._tracebacks.finish())

    def _whole(self, ended: list[Traceback]) -> list[Fact]:
        """With what was said in them: judged alone, a head or a message would be taken for another cause."""
        facts: list[Fact] = []
        for traceback in ended:
            facts += self._inside.pop(traceback.line, ())
            facts.append(traceback)
        return facts

    def _serving(self, number: int, text: str) -> list[Fact] | None:
        """The hot path: one decode or prefill record in SGLang's plain form. None: take the line apart properly."""
        if self._tracebacks.busy:
            return None
        decode = quick_decode(text, number) if DecodeBatch in self._hinted else None
        if decode is not None:
            self._stamp, self._recent = decode.at, ""
            return [decode] if decode.rank in self._ranks or self._is_rank(decode.rank) else []
        if text.find("[20", 1) >= 0:
            return None
        record = quick_record(text)
        if record is None or record.at is None or not self._is_rank(record.rank):
            return None
        message = record.message
        fact: LogFact | None
        if message.startswith("Decode batch"):
            fact = read_decode(message, record.at, number, record.rank)
        elif message.startswith("Prefill batch"):
            fact = read_prefill(message, record.at, number, record.rank)
        else:
            return None
        self._stamp, self._recent = record.at, ""
        if fact is None:
            return []
        if type(fact) in self._hinted:
            return [fact]
        self._hinted.add(type(fact))
        return [fact, *self._hinter.hints(message, record.at, number, record.rank)]

    def _record(self, number: int, record: Record, seen_at: float, facts: list[Fact]) -> None:
        if not self._is_rank(record.rank):
            return
        if record.at is not None:
            self._stamp, self._recent = record.at, ""
        at = record.at if record.at is not None else self._last_stamp(seen_at)
        kind, rank, ended = self._tracebacks.feed(record, number, at)
        facts += self._whole(ended)
        message = record.message
        if kind is not Kind.OUTSIDE:
            if kind is Kind.MESSAGE or record.stamped or any(words in message for words in _ANNOUNCED):
                first = self._tracebacks.first_line(number)
                inside = facts if first is None else self._inside.setdefault(first, [])
                (inside if len(inside) < _MOST_INSIDE else facts).extend(recognise(message, at, number, rank))
            if kind is Kind.MESSAGE:
                facts += self._hinter.hints(message, at, number, rank)
            return
        found = read_record(message, at, number, rank) if message.strip() else []
        if not found:
            found = self._contextual(message, at, number, rank)
        facts += self._hinter.hints(message, at, number, rank)
        facts += (self._remember(fact) for fact in found)

    def _is_rank(self, rank: str | None) -> bool:
        """Whether it is one of the first so many ranks."""
        if rank not in self._ranks and len(self._ranks) <= MOST_RANKS:
            self._ranks.add(rank)
        return rank in self._ranks

    def _contextual(self, message: str, at: float, number: int, rank: str | None) -> list[LogFact]:
        """Lines that mean something only after others: title-less capture bars, the list of graph sizes."""
        if "%|" in message and self._captures > 0:
            bar = bare_bar(message, at, number, rank)
            return [bar] if bar else []
        if message.startswith("Capture cuda graph bs ["):
            sizes = message[len("Capture cuda graph bs [") :].split("]")[0].split(",")
            self._batch_sizes[rank] = tuple(int(size) for size in sizes if size.strip().isdecimal() and len(size) < 12)
            return []
        version = exact_version(message, at, number, rank) if "sglang" in message.lower() else None
        return [version] if version else []

    def _remember(self, fact: LogFact) -> LogFact:
        if isinstance(fact, GraphBegin):
            self._captures += 1
        elif isinstance(fact, GraphEnd):
            self._captures = max(0, self._captures - 1)
            sizes = self._batch_sizes.pop(fact.rank, ())
            if sizes and not fact.batch_sizes:
                return GraphEnd(
                    at=fact.at,
                    line=fact.line,
                    rank=fact.rank,
                    name=fact.name,
                    used_gib=fact.used_gib,
                    avail_gib=fact.avail_gib,
                    elapsed_s=fact.elapsed_s,
                    batch_sizes=sizes,
                )
        elif isinstance(fact, ServerArgs):  # a new life
            self._captures = 0
            self._batch_sizes.clear()
        return fact

    def _last_stamp(self, seen_at: float) -> float:
        if self._recent:
            record = quick_record(self._recent)
            self._recent = ""
            if record is not None and record.at is not None:
                self._stamp = record.at
        return seen_at if self._stamp is None else self._stamp


def _last_of_each_bar(facts: list[Fact]) -> list[Fact]:
    r"""A line that redraws a bar with \r many times says where the bar is at its end."""
    bars = [fact for fact in facts if isinstance(fact, LoadProgress | CaptureProgress)]
    if len(bars) < 2:
        return facts
    last = {type(bar): bar for bar in bars}
    return [f for f in facts if not isinstance(f, LoadProgress | CaptureProgress) or last[type(f)] is f]
