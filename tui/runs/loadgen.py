"""A simple load: so many requests at a time against /generate, their tokens counted as they arrive.

The tokens are SGLang's own count (`meta_info.completion_tokens` of each piece), not pieces: a speculative step gives
several tokens in one.
"""

import http.client
import itertools
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tui.frozen import frozen
from tui.runs.benches import BenchError, BenchResult, Workload
from tui.sources.metrics import parse_metrics

_TIMEOUT_S = 600.0
_SAMPLES = 12
_LEAST_BIN_S = 0.25
_SETTLE_S = 5.0
_FIRST_ID, _LAST_ID = 5, 250  # token ids that every vocabulary has

Progress = Callable[[str], None]


@dataclass(slots=True)
class _Request:
    """One answer: (time, tokens so far) of each piece."""

    started: float
    pieces: list[tuple[float, int]] = field(default_factory=list)
    prompt_tokens: int | None = None
    verify_calls: int | None = None
    ended: bool = False
    error: str | None = None

    @property
    def tokens(self) -> int:
        return self.pieces[-1][1] if self.pieces else 0


@frozen(kw_only=False)
class Counters:
    """The server's own counters; None where it has none."""

    generated: float | None = None
    verify_calls: float | None = None


class LoadGenerator:
    """Drives one server. `cancel()` from another thread hangs up on every request, and the server drops them."""

    def __init__(self, url: str, api_key: str | None = None, seed: int = 1) -> None:
        """Raises BenchError when `url` is no address."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if not parts.hostname:
            raise BenchError(f"{url!r} is no address of a server.")
        self._tls, self._host = parts.scheme == "https", parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._seed = seed
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the load; `run` then raises BenchError."""
        self._cancelled.set()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def run(self, workload: Workload, progress: Progress | None = None) -> BenchResult:
        """Blocks until the load is done. Raises BenchError when it fails or was cancelled."""
        self.warm_up()
        before = self.counters()
        started_at, began = time.time(), time.monotonic()
        requests = self._drive(workload, progress)
        wall_s = max(time.monotonic() - began, 1e-9)
        if self._cancelled.is_set():
            raise BenchError("Cancelled; the server was left running, and dropped the requests.")
        good = [request for request in requests if request.error is None]
        if not good:
            reason = next((request.error for request in requests if request.error), "no request was answered")
            raise BenchError(f"{workload.name}: every request failed: {reason}.")
        tokens = sum(request.tokens for request in good)
        grown = self.grown(before, tokens)
        return _result(workload, requests, good, started_at, wall_s, grown)

    def warm_up(self) -> None:
        """One small request: connections, first use of kernels."""
        self._ask(_Request(time.monotonic()), [_FIRST_ID] * 8, 4)

    def counters(self) -> Counters:
        """`generation_tokens_total` and `spec_verify_calls_total` now."""
        connection = self._connect(10.0)
        try:
            connection.request("GET", "/metrics", headers=self._headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            ranks = parse_metrics(text) if answer.status == 200 else ()
        except (OSError, http.client.HTTPException):
            ranks = ()
        finally:
            self._close(connection)
        found: dict[str, float] = {}
        for rank in ranks:
            for name in ("generation_tokens_total", "spec_verify_calls_total"):
                if name in rank.values:
                    found[name] = found.get(name, 0.0) + rank.values[name]
        return Counters(found.get("generation_tokens_total"), found.get("spec_verify_calls_total"))

    def _drive(self, workload: Workload, progress: Progress | None) -> list[_Request]:
        randoms = random.Random(self._seed)
        prompts = [
            [randoms.randint(_FIRST_ID, _LAST_ID) for _ in range(workload.input_tokens)]
            for _ in range(workload.requests)
        ]
        requests: list[_Request] = []
        waiting = list(enumerate(prompts))

        def work() -> None:
            while not self._cancelled.is_set():
                with self._lock:
                    if not waiting:
                        return
                    _, prompt = waiting.pop(0)
                    request = _Request(time.monotonic())
                    requests.append(request)
                self._ask(request, prompt, workload.output_tokens)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(workload.batch)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(0.1) if threads[0].is_alive() else time.sleep(0.1)
                if progress is not None:
                    done = sum(request.ended for request in list(requests))
                    tokens = sum(request.tokens for request in list(requests))
                    progress(f"{workload.name}: {done} of {workload.requests} requests, {tokens} tokens")
        except BaseException:
            self.cancel()
            raise
        finally:
            for thread in threads:
                thread.join()
        return requests

    def _ask(self, request: _Request, prompt: list[int], output_tokens: int) -> None:
        sampling = {"max_new_tokens": output_tokens, "temperature": 0, "ignore_eos": True}
        body = json.dumps({"input_ids": prompt, "sampling_params": sampling, "stream": True})
        connection = self._connect(_TIMEOUT_S)
        try:
            connection.request("POST", "/generate", body, self._headers)
            answer = connection.getresponse()
            if answer.status != 200:
                text = answer.read(300).decode("utf-8", "replace")
                request.error = f"HTTP {answer.status}: {''.join(c for c in text if c.isprintable())}"
                return
            for line in answer:
                if line.startswith(b"data: {"):
                    _piece(request, json.loads(line[6:]))
            if not request.ended:
                request.error = "the answer ended early"
        except (OSError, http.client.HTTPException, ValueError) as error:
            request.error = str(error) or type(error).__name__
        finally:
            request.ended = True
            self._close(connection)

    def grown(self, before: Counters, tokens: int) -> Counters:
        """What the counters grew by since `before`, in which so many tokens were made.

        SGLang counts a request when it has ended, in another process, so this may wait for a moment.
        """
        deadline = time.monotonic() + _SETTLE_S
        while True:
            now = self.counters()
            if before.generated is None or now.generated is None:
                return Counters()
            grown = now.generated - before.generated
            if grown >= tokens or time.monotonic() > deadline:
                calls = None
                if now.verify_calls is not None:
                    calls = now.verify_calls - (before.verify_calls or 0.0)
                return Counters(grown, calls)
            time.sleep(0.1)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout_s)
        with self._lock:
            self._open.add(connection)
        return connection

    def _close(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()


def _piece(request: _Request, data: dict[str, object]) -> None:
    meta = data.get("meta_info")
    if not isinstance(meta, dict):
        request.error = str(data.get("error", data))[:300]
        return
    count = meta.get("completion_tokens")
    if isinstance(count, int) and count > request.tokens:
        request.pieces.append((time.monotonic(), count))
    if isinstance(meta.get("prompt_tokens"), int):
        request.prompt_tokens = meta["prompt_tokens"]
    if meta.get("finish_reason"):
        request.ended = True
    if isinstance(meta.get("spec_verify_ct"), int):
        request.verify_calls = meta["spec_verify_ct"]


def _result(
    workload: Workload,
    requests: list[_Request],
    good: list[_Request],
    started_at: float,
    wall_s: float,
    grown: Counters,
) -> BenchResult:
    tokens = sum(request.tokens for request in good)
    rates = steady_rates([request.pieces for request in good], workload.batch)
    calls = grown.verify_calls or float(sum(request.verify_calls or 0 for request in good))
    counted = grown.generated if grown.verify_calls and grown.generated else float(tokens)
    firsts = [request.pieces[0][0] - request.started for request in good if request.pieces]
    low, high = (None, None) if len(rates) < 2 else (statistics.quantiles(rates, n=4, method="inclusive")[::2])
    return BenchResult(
        workload=workload.name,
        batch=workload.batch,
        at=started_at,
        wall_s=wall_s,
        requests=len(requests),
        failed=len(requests) - len(good),
        input_tokens=sum(request.prompt_tokens or workload.input_tokens for request in good),
        output_tokens=tokens,
        tok_s=tokens / wall_s,
        engine="specdeck",
        steady_tok_s=statistics.median(rates) if rates else None,
        low=low,
        high=high,
        samples=len(rates),
        counter_tok_s=None if grown.generated is None else grown.generated / wall_s,
        accept_len=counted / calls if calls > 0 else None,
        ttft_s=statistics.median(firsts) if firsts else None,
        context_tokens=workload.input_tokens + workload.output_tokens / 2,
    )


def steady_rates(answers: Iterable[list[tuple[float, int]]], batch: int) -> list[float]:
    """Tokens per second in up to 12 equal slices of the time in which `batch` answers were being written.

    The tokens of a piece were made since the piece before it: counted when they arrive, pieces of several tokens would
    make every slice a few whole pieces long.
    """
    kept = [pieces for pieces in answers if len(pieces) > 1]
    spans = _full_spans([(pieces[0][0], pieces[-1][0]) for pieces in kept], batch)
    total = sum(end - begin for begin, end in spans)
    if total <= 0:
        return []
    size = max(total / _SAMPLES, _LEAST_BIN_S)
    gains = [(*one, *other) for pieces in kept for one, other in itertools.pairwise(pieces)]
    rates: list[float] = []
    for begin, end in spans:
        slices = int((end - begin) / size + 1e-6)
        for i in range(slices):
            low, high = begin + i * size, begin + (i + 1) * size
            rates.append(sum(_made(gain, low, high) for gain in gains if gain[0] < high and gain[2] > low) / size)
    return rates


def _made(gain: tuple[float, int, float, int], low: float, high: float) -> float:
    """Tokens made between two times, out of (time, tokens) of one piece and of the next one, which is later."""
    since, before, at, now = gain
    share = (min(at, high) - max(since, low)) / (at - since) if at > since else 1.0
    return (now - before) * share


def _full_spans(answers: list[tuple[float, float]], batch: int) -> list[tuple[float, float]]:
    """When at least `batch` answers were under way."""
    events = sorted([(begin, 1) for begin, _ in answers] + [(end, -1) for _, end in answers])
    spans, running, since = [], 0, None
    for at, change in events:
        running += change
        if running >= batch and since is None:
            since = at
        elif running < batch and since is not None:
            spans.append((since, at))
            since = None
    return spans
