"""The truth about throughput: which moments of a run say how fast it is, and what they say by batch size. Pure.

Idle time, the warm-up before "ready", and intervals in which a prefill ran or the batch changed are left out.
* counters: differences of `realtime_tokens_total.decode` over windows of at least WINDOW_S at one batch size. SGLang's
  `generation_tokens_total` counts when a request ends, so it serves for whole windows only (`Totals`).
* log: decode lines, each the mean over --decode-log-interval steps.
* loads: the gauge of /v1/loads, where neither of the others is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tui.facts import DecodeBatch, Fact, Launched, Loads, Metrics, PrefillBatch, RankMetrics, ServerReady
from tui.frozen import frozen
from tui.sglang.economics import BatchSpeed

WINDOW_S = 4.0
LONGEST_WINDOW_S = 10.0
_COUNTER = "realtime_tokens_total.decode"
_PREFILL = "realtime_tokens_total.prefill_compute"
_ENOUGH = 3
_KEPT = 5000  # samples of one batch size and source; later ones replace older ones
_KEPT_IN_ALL = 20_000  # samples of one source, some 4 MiB: when there are more, the fullest batch size loses old ones


@frozen
class Sample:
    """One measurement at one batch size of one rank."""

    at: float
    batch: int
    tok_s: float
    accept_len: float | None = None
    context_tokens: float | None = None


@frozen
class Totals:
    """Counters of the whole server since it was ready: tokens generated, verify calls, requests."""

    generated: float = 0.0
    verify_calls: float = 0.0
    requests: float = 0.0

    @property
    def accept_len(self) -> float | None:
        return self.generated / self.verify_calls if self.verify_calls > 0 else None


@dataclass(slots=True)
class _RankLog:
    last: DecodeBatch | None = None
    clean: bool = False  # no prefill since the last decode line


@dataclass(slots=True)
class _Window:
    at: float
    batch: int
    tokens: float
    prefill: float
    last_at: float
    last_tokens: float


@dataclass(slots=True)
class SampleFold:
    """Folds facts of one launch into samples by source."""

    found: dict[str, dict[int, list[Sample]]] = field(default_factory=lambda: {"counters": {}, "log": {}, "loads": {}})
    best_total_tok_s: float | None = None
    _count: dict[str, int] = field(default_factory=lambda: {"counters": 0, "log": 0, "loads": 0})
    _speeds: dict[int, BatchSpeed] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)  # batch sizes whose speed is to be worked out anew
    _ready_at: float | None = None
    _ranks: dict[str, _RankLog] = field(default_factory=dict)
    _windows: dict[int, _Window] = field(default_factory=dict)
    _first: dict[str, float] | None = None
    _latest: dict[str, float] = field(default_factory=dict)

    def apply(self, fact: Fact) -> None:
        match fact:
            case Launched():
                self.__init__()  # type: ignore[misc]
            case ServerReady():
                self._ready_at = fact.at
            case DecodeBatch():
                self._decode(fact)
            case PrefillBatch():
                self._ranks.setdefault(fact.rank or "", _RankLog()).clean = False
            case Metrics():
                self._metrics(fact)
            case Loads():
                self._loads(fact)
            case _:
                pass

    def totals(self) -> Totals:
        """What the counters say since ready; zeros without counters."""
        first = self._first or {}
        grown = {name: value - first.get(name, 0.0) for name, value in self._latest.items()}
        return Totals(
            generated=grown.get("generation_tokens_total", 0.0),
            verify_calls=grown.get("spec_verify_calls_total", 0.0),
            requests=grown.get("num_requests_total", 0.0),
        )

    def speeds(self) -> dict[int, BatchSpeed]:
        """Typical throughput by batch size of one rank, from the best source that has enough samples."""
        for batch in self._changed:
            if samples := self._best(batch):
                self._speeds[batch] = speed_of(batch, samples)
            else:
                self._speeds.pop(batch, None)
        self._changed.clear()
        return dict(sorted(self._speeds.items()))

    def batches(self) -> list[int]:
        return sorted({batch for source in self.found.values() for batch in source})

    def fastest(self, batch: int) -> float | None:
        """The best sample at a batch size."""
        return max((sample.tok_s for sample in self._best(batch)), default=None)

    def source(self, batch: int) -> str:
        """Where `speeds` took that batch size from."""
        for name, samples in self.found.items():
            if len(samples.get(batch, ())) >= _ENOUGH:
                return name
        return max(self.found, key=lambda name: len(self.found[name].get(batch, ())))

    def _best(self, batch: int) -> list[Sample]:
        return self.found[self.source(batch)].get(batch, [])

    def _decode(self, fact: DecodeBatch) -> None:
        rank = self._ranks.setdefault(fact.rank or "", _RankLog())
        before, clean = rank.last, rank.clean
        rank.last, rank.clean = fact, True
        if self._ready_at is None or fact.at < self._ready_at or not fact.running or not fact.gen_tok_s:
            return
        if before is None or not clean or before.running != fact.running:
            return
        context = None if fact.tokens is None else fact.tokens / fact.running
        self._add("log", fact.at, fact.running, fact.gen_tok_s, fact.accept_len, context)
        total = sum(r.last.gen_tok_s or 0.0 for r in self._ranks.values() if r.last and fact.at - r.last.at <= 5.0)
        self.best_total_tok_s = max(total, self.best_total_tok_s or 0.0)

    def _metrics(self, fact: Metrics) -> None:
        summed: dict[str, float] = {}
        for rank in fact.ranks:
            for name, value in rank.values.items():
                if name.endswith("_total"):
                    summed[name] = summed.get(name, 0.0) + value
            if _COUNTER in rank.values:
                self._window(fact.at, rank)
        if self._ready_at is not None:
            if self._first is None or any(value < self._latest.get(name, 0.0) for name, value in summed.items()):
                self._first = summed
            self._latest = summed

    def _window(self, at: float, rank: RankMetrics) -> None:
        key, values = rank.dp_rank or 0, rank.values
        batch = int(values.get("num_running_reqs", 0))
        tokens, prefill = values[_COUNTER], values.get(_PREFILL, 0.0)
        window = self._windows.get(key)
        steady = window is not None and window.batch == batch and window.prefill == prefill
        moved = window is not None and tokens > window.last_tokens and at > window.last_at
        if window is not None and steady and moved:
            window.last_at, window.last_tokens = at, tokens
        over = window is not None and (not steady or at - window.at >= LONGEST_WINDOW_S)
        if window is not None and over:
            length = window.last_at - window.at
            if length >= WINDOW_S and window.batch > 0 and window.last_tokens > window.tokens:
                accept = values.get("spec_accept_length") or None
                used = values.get("num_used_tokens")
                context = used / window.batch if used else None
                self._add("counters", at, window.batch, (window.last_tokens - window.tokens) / length, accept, context)
        if self._ready_at is None or batch == 0:
            self._windows.pop(key, None)
        elif window is None or over or tokens < window.tokens:
            self._windows[key] = _Window(at, batch, tokens, prefill, at, tokens)

    def _loads(self, fact: Loads) -> None:
        for load in fact.loads:
            if self._ready_at is not None and load.running and load.gen_tok_s:
                context = None if load.used_tokens is None else load.used_tokens / load.running
                self._add("loads", fact.at, load.running, load.gen_tok_s, load.accept_len, context)

    def _add(
        self, source: str, at: float, batch: int, tok_s: float, accept: float | None, context: float | None
    ) -> None:
        kept = self.found[source].setdefault(batch, [])
        kept.append(Sample(at=at, batch=batch, tok_s=tok_s, accept_len=accept, context_tokens=context))
        self._changed.add(batch)
        self._count[source] += 1
        if len(kept) > _KEPT:
            self._drop_old(source, batch)
        if self._count[source] > _KEPT_IN_ALL:
            found = self.found[source]
            self._drop_old(source, max(found, key=lambda one: len(found[one])))

    def _drop_old(self, source: str, batch: int) -> None:
        """The older half of the samples at this batch size."""
        kept = self.found[source][batch]
        dropped = (len(kept) + 1) // 2
        del kept[:dropped]
        self._count[source] -= dropped
        self._changed.add(batch)
        if not kept:
            del self.found[source][batch]


def speed_of(batch: int, samples: Iterable[Sample]) -> BatchSpeed:
    """The median of the samples, their middle half, the mean accept length. Raises ValueError without a sample."""
    import statistics  # 5 ms to import, with decimals and fractions

    kept = list(samples)
    if not kept:
        raise ValueError("no samples")
    speeds = sorted(sample.tok_s for sample in kept)
    accepts = [sample.accept_len for sample in kept if sample.accept_len is not None]
    contexts = [sample.context_tokens for sample in kept if sample.context_tokens is not None]
    low, high = (speeds[0], speeds[-1]) if len(speeds) < 4 else _quarters(speeds)
    return BatchSpeed(
        batch=batch,
        tok_s=statistics.median(speeds),
        samples=len(speeds),
        low=low,
        high=high,
        accept_len=statistics.fmean(accepts) if accepts else None,
        context_tokens=statistics.fmean(contexts) if contexts else None,
    )


def fold(facts: Iterable[Fact]) -> SampleFold:
    """All samples of a stream."""
    found = SampleFold()
    for fact in facts:
        found.apply(fact)
    return found


def _quarters(speeds: list[float]) -> tuple[float, float]:
    import statistics

    low, _, high = statistics.quantiles(speeds, n=4, method="inclusive")
    return low, high
