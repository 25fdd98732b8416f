"""Where the GPU memory of every rank went during start-up: a fold of start-up facts (sglang-facts 1.3 and 1.11). GiB.

Target and draft lines read alike, so they are told apart by what came before: a rank's second block of weights and the
pools sized after it are the draft's, in the order of events of the SGLang that wrote the log. A later start in the same
log replaces the earlier one. What no line says stays None.
"""

from dataclasses import replace

from tui.facts import (
    DistributedInit,
    Fact,
    GraphBegin,
    GraphEnd,
    KvPool,
    LogFact,
    PoolEnd,
    PoolSummary,
    Problem,
    ServerArgs,
    ServerReady,
    Shutdown,
    StatePool,
    SwaPool,
    VersionHint,
    WeightsBegin,
    WeightsEnd,
)
from tui.patterns import lazy
from tui.sglang.rankledger import MemoryStep, RankLedger, StartContext, attribute
from tui.sglang.versions import parse_version

__all__ = ["Ledger", "MemoryStep", "RankLedger"]

UNTAGGED = "TP0"  # the rank of memory lines without a tag: SGLang prints none with one GPU
MAX_EVENTS = 400  # per rank; a start has some dozen
_DRAFT_FIRST = (0, 5, 14)
_ENDINGS = frozenset(("sigquit", "rank-died", "rank-dead", "subprocess-crashed", "init-failed", "process-terminated"))
_NUMBER = lazy(r"([A-Z]+)(\d+)")
_GROUPS = ("DP", "PP", "TP")


class Ledger:
    """Apply every fact of a log in order; `ranks` tells the memory of the last start."""

    def __init__(self) -> None:
        self._events: dict[str, list[LogFact]] = {}
        self._context = StartContext()
        self._over = False  # this start serves or ended: a beginning is the beginning of another
        self._tagged = False
        self._ranks: tuple[RankLedger, ...] | None = ()

    def apply(self, fact: Fact) -> None:
        """Takes a fact; those that say nothing about start-up memory are ignored."""
        match fact:
            case ServerArgs():
                self._begin(fact)
            case VersionHint():
                self._learn_order(fact)
            case ServerReady() | Shutdown():
                self._over = True
            case Problem() if fact.code in _ENDINGS:
                self._over = True
            case DistributedInit():
                if self._over and not fact.done:
                    self._restart()
            case WeightsBegin():
                if self._over:
                    self._restart()
                self._record(fact)
            case (
                WeightsEnd()
                | KvPool()
                | SwaPool()
                | StatePool()
                | PoolEnd()
                | GraphBegin()
                | GraphEnd()
                | PoolSummary()
            ):
                self._record(fact)
            case _:
                pass

    def ranks(self) -> tuple[RankLedger, ...]:
        """One ledger per rank that logged anything, in the order of DP, PP and TP ranks."""
        if self._ranks is None:
            self._ranks = tuple(
                attribute(rank, self._events[rank], self._context) for rank in sorted(self._events, key=_order)
            )
        return self._ranks

    def _record(self, fact: LogFact) -> None:
        if fact.rank is None and self._tagged:
            return  # whose it is cannot be told
        if fact.rank is not None and not self._tagged:
            self._tagged = True
        events = self._events.setdefault(fact.rank or UNTAGGED, [])
        if len(events) < MAX_EVENTS:
            events.append(fact)
        self._ranks = None

    def _begin(self, fact: ServerArgs) -> None:
        if self._events or self._over:
            self._restart()
        args = fact.args
        known = "speculative_algorithm" in args
        self._context = replace(
            self._context,
            args_known=known,
            algorithm=_text(args.get("speculative_algorithm")),
            model_path=_text(args.get("model_path")),
            draft_path=_text(args.get("speculative_draft_model_path")),
        )
        self._ranks = None

    def _restart(self) -> None:
        """Forgets the earlier start. The version is kept: hints are given once for a log."""
        self._events = {}
        self._context = StartContext(draft_first=self._context.draft_first)
        self._over = self._tagged = False
        self._ranks = None

    def _learn_order(self, fact: VersionHint) -> None:
        oldest, newest = parse_version(fact.at_least), parse_version(fact.at_most)
        if oldest is not None and oldest.release >= _DRAFT_FIRST:
            order = True
        elif newest is not None and newest.release < _DRAFT_FIRST:
            order = False
        else:
            return
        self._context = replace(self._context, draft_first=order)
        self._ranks = None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _order(rank: str) -> tuple[int, ...]:
    numbers = {name: int(number) for name, number in _NUMBER.findall(rank)}
    return tuple(numbers.get(name, 0) for name in _GROUPS)
