"""What to look at while the server runs: warnings with their numbers, which go away when their cause does."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tui.facts import (
    DecodeBatch,
    Fact,
    GpuSample,
    Launched,
    Loads,
    LogFact,
    LogTail,
    PrefillBatch,
    Problem,
    RankLoad,
    ServerProcesses,
)
from tui.snapshot import Caution, Phase, Progress, State

FULL = 0.95  # of the pool, with requests waiting
RETRACTED_FOR_S = 60.0
# A speculative step costs about this many plain steps, with a small draft and few steps; below it, it cannot pay.
LEAST_ACCEPT_LEN = 1.5
ACCEPT_WINDOW_S = 60.0
LEAST_ACCEPT_LINES = 5
STANDSTILL_S = 15.0  # of a rank's own clock in /v1/loads, while the endpoint answers
SILENCE_S = 30.0  # without a batch line, with requests running
UNHEALTHY_FOR_S = 60.0
LEAST_FREE_GIB = 0.3
FRESH_S = 5.0
# Without earlier runs to go by: seconds without a new line that are still usual in a phase.
USUAL_SILENCE_S = {
    Phase.IMPORTING: 120.0,
    Phase.DISTRIBUTED: 120.0,
    Phase.WEIGHTS: 300.0,
    Phase.DRAFT_WEIGHTS: 300.0,
    Phase.KV_POOL: 60.0,
    Phase.GRAPHS: 300.0,
    Phase.WARMUP: 180.0,
}
PATIENCE = 1.5  # times the duration of earlier runs


@dataclass(slots=True)
class _Rank:
    """The last batch lines of one DP rank."""

    usage: float | None = None
    queue: int = 0
    running: int = 0
    batch_at: float = 0.0
    full_since: float | None = None
    accepts: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=256))


class CautionFold:
    """Folds facts; `now` is a pure function of them, of the phase and of the time."""

    def __init__(self) -> None:
        self._sample: GpuSample | None = None
        self._log_error: str | None = None
        self.reset()

    def reset(self) -> None:
        """Another life: only the GPUs and the log's file are still the same."""
        self._ranks: dict[str, _Rank] = {}
        self._loads: Loads | None = None
        self._moved: dict[int, tuple[float, float]] = {}  # DP rank -> its own stamp, and when that was new
        self._retracted: deque[tuple[float, float]] = deque(maxlen=256)
        self._unhealthy_at: float | None = None
        self._grew_at: float | None = None
        self._processes: ServerProcesses | None = None

    def apply(self, fact: Fact) -> None:
        """Fold one fact in."""
        match fact:
            case DecodeBatch():
                self._decode(fact)
            case PrefillBatch():
                self._prefill(fact)
            case Problem():
                self._problem(fact)
            case Loads():
                self._load(fact)
            case LogTail():
                self._grew_at, self._log_error = fact.at, fact.error
            case Launched():
                self._grew_at = fact.at
            case GpuSample():
                self._sample = fact
            case ServerProcesses():
                self._processes = fact
            case _:
                pass
        if isinstance(fact, LogFact) and self._grew_at is None:
            self._grew_at = fact.at

    def now(self, at: float, state: State, progress: Progress) -> tuple[Caution, ...]:
        """The warnings at time `at` (Unix seconds)."""
        if state is State.STARTING:
            return (*self._log(), *self._keeper(), *self._stalled_start(at, progress))
        if state is not State.RUNNING:
            return tuple(self._log())
        return (
            *self._log(),
            *self._keeper(),
            *self._standstill(at),
            *self._pool(),
            *self._retractions(at),
            *self._acceptance(at),
            *self._pressure(),
        )

    def _decode(self, fact: DecodeBatch) -> None:
        rank = self._ranks.setdefault(fact.rank or "", _Rank())
        self._batch(rank, fact)
        full = fact.token_usage is not None and fact.token_usage >= FULL and bool(fact.queue)
        if not full:
            rank.full_since = None
        elif rank.full_since is None:
            rank.full_since = fact.at
        if fact.accept_len is not None and fact.running:
            rank.accepts.append((fact.at, fact.accept_len))

    def _prefill(self, fact: PrefillBatch) -> None:
        self._batch(self._ranks.setdefault(fact.rank or "", _Rank()), fact)

    def _batch(self, rank: _Rank, fact: DecodeBatch | PrefillBatch) -> None:
        rank.batch_at = fact.at
        rank.running, rank.queue = fact.running or 0, fact.queue or 0
        rank.usage = fact.token_usage
        self._unhealthy_at = None

    def _problem(self, fact: Problem) -> None:
        if fact.code == "kv-retracted":
            self._retracted.append((fact.at, fact.numbers.get("requests", 1.0)))
        elif fact.code == "health-check-failed":
            self._unhealthy_at = fact.at

    def _load(self, fact: Loads) -> None:
        self._loads = fact
        for load in fact.loads:
            if load.stamp is None:
                continue
            known = self._moved.get(load.dp_rank)
            if known is None or known[0] != load.stamp:
                self._moved[load.dp_rank] = (load.stamp, fact.at)

    def _log(self) -> Iterable[Caution]:
        if self._log_error is not None:
            yield Caution(kind="log-unread", text=self._log_error)

    def _keeper(self) -> Iterable[Caution]:
        if self._processes is not None and self._processes.keeper_gone and self._processes.pids:
            text = "The keeper of this server is gone: the server goes on and can be stopped, but how it ends is lost"
            yield Caution(kind="keeper-gone", text=text)

    def _stalled_start(self, at: float, progress: Progress) -> Iterable[Caution]:
        if self._grew_at is None or progress.phase not in USUAL_SILENCE_S:
            return
        silent = at - self._grew_at
        expected = progress.expected_phase_s
        usual = max(30.0, PATIENCE * expected) if expected is not None else USUAL_SILENCE_S[progress.phase]
        if silent <= usual:
            return
        earlier = f"earlier runs took {expected:.0f} s for all of it" if expected is not None else "that is long"
        text = f"No new line for {silent:.0f} s while {progress.phase.value}; {earlier}"
        yield Caution(kind="hang", text=text, since=self._grew_at)

    def _standstill(self, at: float) -> Iterable[Caution]:
        """A scheduler that no longer steps behind a port that answers; one of several DP ranks, or all."""
        loads = self._loads
        dead: list[RankLoad] = []
        if loads is not None and at - loads.at <= FRESH_S:
            dead = [
                load
                for load in loads.loads
                if load.dp_rank in self._moved and loads.at - self._moved[load.dp_rank][1] >= STANDSTILL_S
            ]
            for load in dead:
                since = self._moved[load.dp_rank][1]
                whose = f"DP rank {load.dp_rank}" if len(loads.loads) > 1 else "The scheduler"
                text = f"{whose} has not stepped for {loads.at - since:.0f} s, though the port answers"
                yield Caution(kind="hang", text=text, since=since)
            if not dead:
                yield from self._silent_decode(loads)
        if self._unhealthy_at is not None and at - self._unhealthy_at <= UNHEALTHY_FOR_S and not dead:
            text = "A health check failed and no batch has come since: a long prefill, or a dead scheduler"
            yield Caution(kind="hang", text=text, since=self._unhealthy_at)

    def _silent_decode(self, loads: Loads) -> Iterable[Caution]:
        running = sum(load.running or 0 for load in loads.loads)
        generating = sum(load.gen_tok_s or 0.0 for load in loads.loads)
        latest = max((rank.batch_at for rank in self._ranks.values()), default=None)
        if latest is None or not running or generating > 0 or loads.at - latest < SILENCE_S:
            return
        text = f"{running} requests run, but no batch was logged for {loads.at - latest:.0f} s"
        yield Caution(kind="hang", text=text, since=latest)

    def _pool(self) -> Iterable[Caution]:
        full = [(name, rank) for name, rank in self._ranks.items() if rank.full_since is not None]
        if not full:
            return
        name, rank = max(full, key=lambda item: item[1].usage or 0.0)
        where = f" of {name}" if name and len(self._ranks) > 1 else ""
        waiting = "1 request waits" if rank.queue == 1 else f"{rank.queue} requests wait"
        text = f"The KV pool{where} is {100 * (rank.usage or 0.0):.0f} % full and {waiting}"
        yield Caution(kind="kv-exhausted", text=text, since=rank.full_since)

    def _retractions(self, at: float) -> Iterable[Caution]:
        recent = [(when, number) for when, number in self._retracted if at - when <= RETRACTED_FOR_S]
        if not recent:
            return
        number = sum(number for _, number in recent)
        what = "1 request was" if number == 1 else f"{number:.0f} requests were"
        text = f"{what} thrown back into the queue in the last {RETRACTED_FOR_S:.0f} s: the KV pool was full"
        yield Caution(kind="kv-exhausted", text=text, since=recent[0][0])

    def _acceptance(self, at: float) -> Iterable[Caution]:
        recent = [
            (when, length)
            for rank in self._ranks.values()
            for when, length in rank.accepts
            if at - when <= ACCEPT_WINDOW_S
        ]
        if len(recent) < LEAST_ACCEPT_LINES:
            return
        mean = sum(length for _, length in recent) / len(recent)
        if mean >= LEAST_ACCEPT_LEN:
            return
        text = f"Accept length {mean:.2f}: a speculative step likely costs more than it brings"
        yield Caution(kind="low-acceptance", text=text, since=min(when for when, _ in recent))

    def _pressure(self) -> Iterable[Caution]:
        if self._sample is None:
            return
        mine = set(self._processes.pids) if self._processes is not None else set()
        for gpu in self._sample.gpus:
            held = any(process.pid in mine for process in gpu.processes)
            if gpu.kind in ("gpu", "mig") and held and gpu.free_gib is not None and gpu.free_gib < LEAST_FREE_GIB:
                text = f"GPU {gpu.index} has {gpu.free_gib * 1024:.0f} MiB free: a large prefill may not find room"
                yield Caution(kind="runtime-oom", text=text, since=None)
