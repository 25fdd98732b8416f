"""The doctor: a fold of facts that knows at any moment what is wrong with the present life of the server."""

from collections.abc import Iterable, Mapping
from typing import Any

from tui.facts import (
    Attached,
    CaptureProgress,
    DecodeBatch,
    DistributedInit,
    Exited,
    Fact,
    GpuSample,
    GraphBegin,
    GraphEnd,
    HttpListening,
    KvPool,
    Launched,
    LoadProgress,
    LogFact,
    PoolEnd,
    PoolSummary,
    PrefillBatch,
    Problem,
    ServerArgs,
    ServerInfo,
    ServerReady,
    Shutdown,
    StatePool,
    Traceback,
    Verdict,
    VersionHint,
    WeightsBegin,
    WeightsEnd,
)
from tui.sglang.diagnosis.case import Case, RankMemory, Seen, When
from tui.sglang.diagnosis.incidents import group
from tui.sglang.diagnosis.places import WARNINGS, dismissed_by
from tui.sglang.diagnosis.serving import Serving
from tui.sglang.versions import Version, parse_version

UNTAGGED = "TP0"
MOST_SEEN = 600  # problems and tracebacks of one life; the first ones hold the cause
MOST_OF_A_WARNING = 20
_ENDINGS = frozenset(("sigquit", "rank-died", "rank-dead", "subprocess-crashed", "init-failed", "process-terminated"))
_ORDERLY = ("SIGTERM", "SIGINT", "Gracefully exiting", "Shutting down")


class Doctor:
    """Apply every fact in order; `verdict` is about the present life and costs nothing while nothing changed."""

    def __init__(self) -> None:
        self._launched: Launched | None = None
        self._gpus_total: tuple[float, ...] = ()
        self._least: Version | None = None
        self._most: Version | None = None
        self._exited: Exited | None = None
        self._verdict: Verdict | None = None
        self._begin()

    def apply(self, fact: Fact) -> None:
        """Fold one fact in."""
        if isinstance(fact, LogFact):
            self._line = fact.line
        match fact:
            case DecodeBatch() | PrefillBatch():
                self._batch(fact)
            case Problem() | Traceback():
                self._trouble(fact)
            case VersionHint():
                self._hint(fact.at_least, fact.at_most)
            case Launched() | Attached():
                self._least = self._most = None
                self._launched = fact if isinstance(fact, Launched) else None
                self._begin()
                if isinstance(fact, Launched):
                    self._hint(fact.sglang_version, fact.sglang_version)
            case ServerArgs():
                self._server_args(fact)
            case ServerInfo():
                self._hint(fact.version, fact.version)
            case GpuSample():
                self._gpus_total = tuple(gpu.total_gib for gpu in fact.gpus if gpu.total_gib is not None)
            case Exited():
                self._exited, self._dirty = fact, True
            case Shutdown():
                self._shutdown(fact)
            case _:
                self._start_up(fact)

    def extend(self, facts: Iterable[Fact]) -> None:
        """Fold many facts in."""
        for fact in facts:
            self.apply(fact)

    def verdict(self) -> Verdict | None:
        """What is wrong; None when nothing is."""
        if self._dirty:
            self._verdict = self._chosen() if self._seen or self._exited or self._forced else None
            self._dirty = False
        return self._verdict

    def _chosen(self) -> Verdict | None:
        from tui.sglang.diagnosis.choose import choose  # 20 ms of recognisers, and most servers are well

        return choose(self.case())

    def conclude(self) -> Verdict | None:
        """The verdict on a log that has ended, the state in which it leaves a serving server included."""
        found = self.verdict()
        if found is not None or not self.serves:
            return found
        return self._serving.verdict()

    @property
    def serves(self) -> bool:
        """As far as is known the server is serving."""
        return (self._ready or self._served) and not self._over and self._stop is None and self._exited is None

    def case(self) -> Case:
        """Everything the recognisers are told."""
        return Case(
            version_least=self._least,
            version_most=self._most,
            args=self._args,
            knobs=self._launched.knobs if self._launched else None,
            memory=dict(self._memory),
            incidents=group(self._seen),
            max_total_num_tokens=self._summary.max_total_num_tokens if self._summary else None,
            max_running_requests=self._summary.max_running_requests if self._summary else None,
            ready=self._ready,
            served=self._served,
            exited=self._exited,
            stop_text=self._stop.text if self._stop else "",
            stop_line=self._stop.line if self._stop else 0,
            last_line=self._line,
            forced_stop=self._forced,
            gpus_total_gib=self._gpus_total,
        )

    def _begin(self) -> None:
        """A new life: what the old one said holds no more."""
        self._args: Mapping[str, Any] = {}
        self._memory: dict[str, RankMemory] = {}
        self._when: dict[str, When] = {}
        self._seen: list[Seen] = []
        self._counts: dict[str, int] = {}
        self._outlived: set[str | None] = set()  # ranks with a batch since the last trouble
        self._line = 0
        self._summary: PoolSummary | None = None
        self._ready = self._served = self._over = self._started = False
        self._stop: Shutdown | None = None
        self._forced: tuple[int, str] | None = None
        self._serving = Serving()
        self._exited, self._verdict, self._dirty = None, None, False

    def _server_args(self, fact: ServerArgs) -> None:
        """Printed once per launch: it begins a life unless this launch has said nothing else so far."""
        if self._started or self._over or self._args:
            self._begin()
        self._args = fact.args
        self._dirty = bool(self._seen)

    def _hint(self, at_least: str | None, at_most: str | None) -> None:
        least, most = parse_version(at_least), parse_version(at_most)
        if least is not None and (self._least is None or least > self._least):
            self._least, self._dirty = least, bool(self._seen)
        if most is not None and (self._most is None or most < self._most):
            self._most, self._dirty = most, bool(self._seen)

    def _trouble(self, fact: Problem | Traceback) -> None:
        if isinstance(fact, Problem):
            if fact.code == "kv-retracted":
                self._serving.retracted(fact)
            if fact.code in _ENDINGS:
                self._over = True
            kept = self._counts.get(fact.code, 0)
            if kept >= MOST_OF_A_WARNING and fact.code in WARNINGS:
                return
            self._counts[fact.code] = kept + 1
        else:
            self._seen = [seen for seen in self._seen if not _goes_on(seen.fact, fact)]
        if len(self._seen) >= MOST_SEEN:
            return
        self._outlived.clear()
        self._seen.append(Seen(fact=fact, when=self._moment(fact.rank), stopping=self._stop is not None))
        self._dirty = True

    def _moment(self, rank: str | None) -> When:
        if self._ready or self._served:
            return When.SERVING
        if rank is None and UNTAGGED not in self._when and self._when:
            # A line without a tag among tagged ranks: what the ranks were at, if they agree.
            moments = set(self._when.values())
            return moments.pop() if len(moments) == 1 else When.UNKNOWN
        return self._when.get(rank or UNTAGGED, When.LAUNCH if self._args else When.UNKNOWN)

    def _shutdown(self, fact: Shutdown) -> None:
        if self._stop is None and any(word in fact.text for word in _ORDERLY):
            self._stop = fact
        if "while health check failed" in fact.text and self._forced is None:
            self._forced = (fact.line, fact.text)
            self._dirty = True

    def _batch(self, fact: DecodeBatch | PrefillBatch) -> None:
        self._served = True
        if isinstance(fact, DecodeBatch):
            self._serving.apply(fact)
        # What a rank's batch did not dismiss its next ones will not either.
        if self._seen and fact.rank not in self._outlived:
            self._outlived.add(fact.rank)
            self._progress(fact)

    def _progress(self, fact: Fact) -> None:
        """What a rank reported before, it survived: such reports say nothing about its death."""
        left = [seen for seen in self._seen if not dismissed_by(seen.fact, fact)]
        if len(left) != len(self._seen):
            self._seen, self._dirty = left, True

    def _bar(self, rank: str | None, when: When, draft: When) -> None:
        """A progress bar, which carries no rank: it tells the moment where no other line did."""
        if self._ready or any(moment not in (When.LAUNCH, When.RANKS) for moment in self._when.values()):
            return
        again = any(memory.base is not None for memory in self._memory.values())
        for key in list(self._when) or [rank or UNTAGGED]:
            self._when[key] = draft if again else when

    def _start_up(self, fact: Fact) -> None:
        match fact:
            case CaptureProgress():
                self._bar(fact.rank, When.CAPTURE, When.CAPTURE)
                return
            case LoadProgress():
                self._bar(fact.rank, When.LOAD, When.DRAFT_LOAD)
                return
            case DistributedInit() if not fact.done:
                if self._over:
                    self._begin()
                self._move(fact.rank, When.RANKS, only_first=True)
            case WeightsBegin():
                if self._over:
                    self._begin()
                self._weights_begin(fact)
            case WeightsEnd():
                self._weights_end(fact)
            case KvPool():
                self._kv_pool(fact)
            case StatePool():
                self._move(fact.rank, When.POOL)
            case PoolEnd():
                self._move(fact.rank, When.WORKSPACE)
                self._remember(fact.rank, free=fact.avail_gib, sized=True)
            case GraphBegin():
                self._move(fact.rank, When.CAPTURE)
                self._remember(fact.rank, free=fact.avail_gib)
            case GraphEnd():
                self._remember(fact.rank, free=fact.avail_gib)
            case PoolSummary():
                self._summary = fact
                self._move(fact.rank, When.WARMUP)
            case HttpListening():
                self._started = True
                self._when = dict.fromkeys(self._when or {UNTAGGED: When.WARMUP}, When.WARMUP)
                return
            case ServerReady():
                self._ready = self._started = True
            case _:
                return
        self._started = True
        if self._seen:
            self._progress(fact)

    def _move(self, rank: str | None, when: When, only_first: bool = False) -> None:
        key = rank or UNTAGGED
        if not only_first or key not in self._when:
            self._when[key] = when

    def _remember(self, rank: str | None, **values: Any) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        key = rank or UNTAGGED
        self._memory[key] = self._memory.get(key, RankMemory()).change(**known)

    def _weights_begin(self, fact: WeightsBegin) -> None:
        memory = self._memory.get(fact.rank or UNTAGGED, RankMemory())
        again = memory.left is not None or memory.base is not None or memory.sized
        self._move(fact.rank, When.DRAFT_LOAD if again else When.LOAD)
        if memory.before is None and not again:
            self._remember(fact.rank, before=fact.avail_gib)
        self._remember(fact.rank, free=fact.avail_gib)

    def _weights_end(self, fact: WeightsEnd) -> None:
        memory = self._memory.get(fact.rank or UNTAGGED, RankMemory())
        self._move(fact.rank, When.DRAFT_POOL if memory.sized else When.POOL)
        self._remember(fact.rank, free=fact.avail_gib)
        if memory.sized:
            return
        before = memory.before
        if before is None and memory.base is None and fact.avail_gib is not None and fact.used_gib is not None:
            before = fact.avail_gib + fact.used_gib
        self._remember(
            fact.rank,
            before=before,
            base=fact.used_gib if memory.base is None else None,
            left=fact.avail_gib,
            left_line=fact.line,
            left_used=fact.used_gib,
            model_class=fact.model_class if memory.model_class is None else None,
        )

    def _kv_pool(self, fact: KvPool) -> None:
        memory = self._memory.get(fact.rank or UNTAGGED, RankMemory())
        self._move(fact.rank, When.DRAFT_POOL if memory.sized else When.POOL)
        if memory.kv_gib is None and fact.gib and fact.tokens:
            self._remember(fact.rank, kv_gib=fact.gib, kv_tokens=fact.tokens)


def _goes_on(before: Problem | Traceback, now: Traceback) -> bool:
    """Whether `now` is the whole of a traceback of which `before` was the beginning."""
    if not isinstance(before, Traceback) or (before.line, before.rank) != (now.line, now.rank):
        return False
    return now.chain[: len(before.chain)] == before.chain and len(now.chain) > len(before.chain)
