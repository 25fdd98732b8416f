"""The scheduler of one DP rank: requests in, tokens and log lines out, in simulated time.

Every value is a function of the seed and of how many steps were made, never of the wall clock.
"""

import math
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tui.rehearsal.launch import Launch, Rank
from tui.rehearsal.logforms import DecodeFields, LogForms
from tui.rehearsal.speeds import PREFILL_TOK_S, Speeds
from tui.rehearsal.startup import Started

_JITTER, _ACCEPT_JITTER = 0.006, 0.03
_PROMPT_TOKENS = (300, 900)
_POOL_SHARE = 0.7  # of the pool that the built-in traffic fills
_NEW_TOKEN_RATIO = 0.7


@dataclass(slots=True, eq=False)
class Request:
    """One request; `synthetic`: of the built-in traffic. `news` gets the tokens of each turn and at the end None."""

    rid: str
    prompt: int
    output: int
    synthetic: bool = False
    cached: int = 0
    produced: int = 0
    verify_calls: int = 0
    due: float = 0.0  # tokens owed, the fraction of one
    aborted: bool = False
    news: queue.SimpleQueue[int | None] = field(default_factory=queue.SimpleQueue)

    @property
    def held(self) -> int:
        """KV slots in use."""
        return self.prompt + self.produced


@dataclass(slots=True)
class Totals:
    """Counters since the start, as /metrics has them."""

    prompt: int = 0
    generated: int = 0
    verify_calls: int = 0
    requests: int = 0
    cached: int = 0
    retracted: int = 0
    decode_steps: int = 0


Take = Callable[[Rank, float], None]


class Engine:
    """`take` allocates the working memory of a prefill and raises when there is none. Only `submit` is thread-safe."""

    def __init__(
        self,
        launch: Launch,
        started: Started,
        rank: Rank,
        speeds: Speeds,
        forms: LogForms,
        log: Callable[[str, Rank | None], None],
        take: Take,
    ) -> None:
        self._launch = launch
        self.rank = rank
        self.speeds = speeds
        self._forms = forms
        self._log = log
        self._take = take
        self.pool = started.tokens
        self.limit = max(1, started.max_running_requests)
        self.totals = Totals()
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.tok_s = 0.0
        self.accept_len = 1.0
        self.stalled = False
        self._lock = threading.Lock()
        self._random = Random(f"{launch.settings.seed}:{rank.dp}:traffic")
        self._interval = int(launch.flags.get("decode_log_interval") or 40)
        self._turn: Callable[[], None] | None = None
        self._synthetic = 0
        self._count = 0
        self._activation_gib = 0.0
        self._since_log = [0.0, 0.0, 0.0]  # steps, tokens, seconds
        self._pace = (1.0, 1.0)
        self._new_pace()

    @property
    def used_tokens(self) -> int:
        return min(self.pool, sum(request.held for request in self.running))

    @property
    def usage(self) -> float:
        return self.used_tokens / self.pool

    @property
    def busy(self) -> int:
        """Requests in the system."""
        return len(self.running) + len(self.waiting)

    def submit(self, request: Request) -> None:
        """A new request, from any thread."""
        with self._lock:
            self.waiting.append(request)

    def feed(self, concurrency: int) -> None:
        """Keep this many requests of the built-in traffic in the system."""
        while self._synthetic < concurrency:
            self._synthetic += 1
            self._count += 1
            low, high = self._launch.settings.plot.output_tokens
            prompt, output = self._random.randint(*_PROMPT_TOKENS), self._random.randint(low, high)
            if self._launch.settings.scenario != "retract":
                room = int(self.pool * _POOL_SHARE / concurrency)
                prompt, output = min(prompt, max(1, room // 4)), min(output, max(1, room * 3 // 4))
            self.submit(Request(f"built-in-{self.rank.dp}-{self._count}", prompt, output, synthetic=True))

    def drain(self, seconds: float) -> None:
        """No new requests of the built-in traffic; those that run end within so many simulated seconds."""
        most = int(seconds * self.speeds.accept_len() / self.speeds.step_s(max(1, len(self.running))))
        for request in (*self.running, *self.waiting):
            if request.synthetic:
                request.output = min(request.output, request.produced + most)

    def begin(self, step_s: float) -> float | None:
        """Start a turn of about `step_s` simulated seconds; returns its length, None when there is nothing to do."""
        if self.stalled:
            return None
        batch = self._admit()
        if batch:
            return self._begin_prefill(batch)
        if not self.running:
            self.tok_s = 0.0
            return None
        step = self.speeds.step_s(len(self.running)) * self._pace[0]
        left = self._interval - int(self._since_log[0])
        soonest = min(math.ceil((r.output - r.produced - r.due) / self._pace[1]) for r in self.running)
        steps = max(1, min(left, soonest, int(step_s / step)))
        duration = steps * step
        self._turn = lambda: self._end_decode(steps, duration)
        return duration

    def complete(self) -> None:
        """The turn is over: tokens reach the requests, lines the log."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn()

    def _admit(self) -> list[Request]:
        """Waiting requests that fit, up to one prefill chunk."""
        batch: list[Request] = []
        tokens = 0
        most = self._launch.chunk if self._launch.chunk > 0 else 1 << 30
        spare = self.pool - self.used_tokens
        with self._lock:
            while self.waiting and len(self.running) + len(batch) < self.limit:
                request = self.waiting[0]
                margin = (len(self.running) + len(batch)) * self.speeds.draft_tokens
                if batch and (tokens + request.held > most or request.held + margin > spare):
                    break
                if not batch and self.running and request.held + margin + 32 > spare:
                    break
                self.waiting.popleft()
                batch.append(request)
                tokens += request.held
                spare -= request.held
        return batch

    def _begin_prefill(self, batch: list[Request]) -> float:
        tokens = sum(request.held for request in batch)
        chunk = self._launch.chunk if self._launch.chunk > 0 else tokens
        need = self._launch.activation_gib(min(tokens, chunk))
        if need > self._activation_gib:
            self._take(self.rank, need - self._activation_gib)
            self._activation_gib = need
        duration = max(0.004, tokens / PREFILL_TOK_S)
        self._turn = lambda: self._end_prefill(batch, tokens, duration)
        return duration

    def _end_prefill(self, batch: list[Request], tokens: int, duration: float) -> None:
        running, queued = len(self.running), len(self.waiting)
        self._log(
            self._forms.prefill(
                len(batch), tokens, 0, self.usage, running, queued, False, tokens / max(duration, 1e-6)
            ),
            self.rank,
        )
        for request in batch:
            if not request.produced:
                self.totals.requests += 1
                self.totals.prompt += request.prompt
                self._give(request, 1)
            self.running.append(request)
        self._since_log[2] += duration
        self._finish_done()

    def _end_decode(self, steps: int, duration: float) -> None:
        emitted = 0
        for request in self.running:
            request.due += steps * self._pace[1]
            count = min(int(request.due), request.output - request.produced)
            request.due -= count
            request.verify_calls += steps
            emitted += self._give(request, count)
        batch = len(self.running)
        self.totals.verify_calls += steps * batch if self.speeds.algorithm else 0
        self.totals.decode_steps += steps
        for index, value in enumerate((steps, emitted, duration)):
            self._since_log[index] += value
        self._finish_done()
        self._retract()
        if self._since_log[0] >= self._interval:
            self._report(batch)

    def _give(self, request: Request, count: int) -> int:
        if count > 0:
            request.produced += count
            self.totals.generated += count
            request.news.put(count)
        return count

    def _finish_done(self) -> None:
        for request in [r for r in self.running if r.produced >= r.output or r.aborted]:
            self.running.remove(request)
            request.news.put(None)
            if request.synthetic:
                self._synthetic -= 1

    def _retract(self) -> None:
        """The pool is full: the youngest requests go back into the queue."""
        need = len(self.running) * self.speeds.draft_tokens
        gained, before = 0, _NEW_TOKEN_RATIO
        victims: list[Request] = []
        while sum(r.held for r in self.running) + need > self.pool and len(self.running) > 1:
            victim = self.running.pop()
            gained += victim.held
            victims.append(victim)
        if victims:
            self.totals.retracted += len(victims)
            with self._lock:
                self.waiting.extendleft(victims)
            self._log(self._forms.retracted(len(victims), gained, before, min(1.0, before + 0.12)), self.rank)
        elif self.running and sum(r.held for r in self.running) + need > self.pool:
            self.running[0].output = self.running[0].produced  # one request alone: it ends where the pool does
            self._finish_done()

    def _report(self, batch: int) -> None:
        _, tokens, seconds = self._since_log
        self.tok_s = tokens / seconds if seconds else 0.0
        speculative = self.speeds.algorithm is not None
        if speculative:
            self.accept_len = self._pace[1]
        self._log(
            self._forms.decode(
                DecodeFields(
                    running=len(self.running) or batch,
                    tokens=self.used_tokens,
                    usage=self.usage,
                    tok_s=self.tok_s,
                    queue=len(self.waiting),
                    graph=self.speeds.has_graph(batch),
                    accept_len=self.accept_len if speculative else None,
                    steps=self.speeds.steps,
                    draft_tokens=self.speeds.draft_tokens,
                )
            ),
            self.rank,
        )
        self._since_log = [0.0, 0.0, 0.0]
        self._new_pace()

    def _new_pace(self) -> None:
        """How this interval's steps differ from the mean: their length, and the tokens each gives."""
        length = 1 + _JITTER * self._random.gauss(0, 1)
        tokens = self.speeds.accept_len()
        if self.speeds.algorithm is not None:
            tokens = max(1.0, 1 + (tokens - 1) * (1 + _ACCEPT_JITTER * self._random.gauss(0, 1)))
        self._pace = (length, tokens)
