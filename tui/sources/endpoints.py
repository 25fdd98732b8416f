"""Watches a server by its endpoints. Only questions that cost it next to nothing: none generates a token or controls.

`/health` is left alone on purpose: it makes the server generate a token. Synchronous: call it in a worker thread.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tui.facts import Endpoint, Fact, Json, Metrics
from tui.sources import endpoint_shapes as shapes
from tui.sources.endpoint_http import Answer, Http, NoAnswerError
from tui.sources.metrics import parse_metrics

READY_S = 1.0  # between polls of a server that answers
STARTING_S = 0.5
BACK_OFF_S = (1.0, 2.0, 4.0, 8.0, 10.0)
CHECK_S = 5.0  # readiness is asked for this rarely while /v1/loads answers: each question is a line in the server's log
METRICS_S = 2.0  # while /v1/loads answers: rendering the page takes 20 ms of the process that streams the answers
INFO_S = 60.0
INFO_RETRY_S = 10.0

# Newest first: an older server answers 404 to the ones it does not know, and a newer one warns about the old ones.
_PATHS = {
    "ready": ("/ready", "/model_info", "/get_model_info"),
    "info": ("/server_info", "/get_server_info"),
    "loads": ("/v1/loads?include=core,spec,queues", "/get_load"),
    "metrics": ("/metrics",),
}


class _NotReadyError(Exception):
    """The server, or what is in its place, is in another state than ready."""

    def __init__(self, state: str, sentence: str) -> None:
        super().__init__(sentence)
        self.state = state


@dataclass(slots=True)
class _Known:
    """What is known of the server that answers now; forgotten when it goes down, as the next may be another."""

    paths: dict[str, int] = field(default_factory=dict)  # by question: which of its paths works; past the last: none
    is_sglang: bool = False
    was_ready: bool = False
    has_loads: bool = False
    checked_at: float | None = None
    metrics_at: float | None = None
    info_due: float | None = None


class EndpointSource:
    """One server at `url`. The API key goes to that host and nowhere else.

    Raises ValueError, with a sentence, when `url` is no address or the key cannot be sent.
    """

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 2.0) -> None:
        self._http = Http(url, api_key, timeout_s)
        self._has_key = bool(api_key)
        self._known = _Known()
        self._failures = 0
        self._polled_at: float | None = None
        self._latency_s: float | None = None
        self._notes: list[str] = []

    @property
    def url(self) -> str:
        """The address, without user and password."""
        return self._http.url

    def wait_s(self, now: float, starting: bool = False) -> float:
        """Seconds until the next poll is due; 0 when it is. `starting`: a launch is under way, so look often."""
        if self._polled_at is None or now < self._polled_at:
            return 0.0
        if starting:
            pause = STARTING_S
        elif self._failures:
            pause = BACK_OFF_S[min(self._failures, len(BACK_OFF_S)) - 1]
        else:
            pause = READY_S
        return max(0.0, self._polled_at + pause - now)

    def poll(self, now: float, starting: bool = False) -> list[Fact]:
        """The server's state, first, then what it tells; [] when a poll is not due yet. Never raises.

        `now`: Unix seconds. It takes as long as the server does: at most the time limit for each question, and the
        first question that gets no answer is the last one.
        """
        if self.wait_s(now, starting) > 0:
            return []
        self._polled_at = now
        self._latency_s = None
        self._notes = []
        facts: list[Fact] = []
        state = "ready"
        try:
            self._check_readiness(now, starting)
            # The open page first: it tells the throughput even to those who have no key for the rest.
            for question in (self._metrics, self._loads, self._info):
                facts += question(now)
            if not self._known.is_sglang:
                raise self._foreign()
            self._known.was_ready = True
        except (NoAnswerError, _NotReadyError) as error:
            state = error.state
            self._notes = [str(error)]
            self._known.checked_at = None
            if state in ("down", "foreign"):
                self._known = _Known()
                facts = []
        self._failures = 0 if state in ("ready", "starting", "draining") else self._failures + 1
        detail = "; ".join(self._notes)
        return [Endpoint(at=now, url=self.url, state=state, detail=detail, latency_s=self._latency_s), *facts]

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def _check_readiness(self, now: float, starting: bool) -> None:
        known, who = self._known, self._http.address
        if known.checked_at is not None and known.has_loads and 0 <= now - known.checked_at < CHECK_S:
            return
        answer = self._ask("ready")
        if answer is None:
            raise self._foreign()
        if answer.status == 503 and known.was_ready and not starting:
            raise _NotReadyError("draining", f"{who} finishes the requests it has and takes no new ones")
        if answer.status == 503:
            raise _NotReadyError("starting", f"{who} answers and is still warming up")
        if answer.status != 200:
            raise self._unexpected(answer.status)
        if known.paths["ready"] > 0:
            if not shapes.is_model_info(self._json(answer, "ready")):
                raise self._foreign()
            known.is_sglang = True
        known.checked_at = now

    def _metrics(self, now: float) -> list[Fact]:
        known = self._known
        if known.metrics_at is not None and known.has_loads and 0 <= now - known.metrics_at < METRICS_S:
            return []
        known.metrics_at = now
        answer = self._ask("metrics")
        if answer is None or answer.status != 200:
            return []
        ranks = parse_metrics(answer.body.decode("utf-8", errors="replace"))
        known.is_sglang |= bool(ranks)
        return [Metrics(at=now, ranks=ranks)] if ranks else []

    def _loads(self, now: float) -> list[Fact]:
        found = self._read("loads", lambda data: shapes.loads(data, now))
        self._known.has_loads = bool(found)
        return found

    def _info(self, now: float) -> list[Fact]:
        known = self._known
        if known.info_due is not None and 0 < known.info_due - now <= INFO_S:
            return []
        known.info_due = now + INFO_RETRY_S
        found = self._read("info", lambda data: shapes.server_info(data, now))
        if found:
            known.info_due = now + INFO_S
        return found

    def _read(self, question: str, read: Callable[[Json], Fact | None]) -> list[Fact]:
        answer = self._ask(question)
        if answer is None:
            return []
        if answer.status != 200:
            self._notes.append(f"{self._path(question)} answers HTTP {answer.status}")
            return []
        fact = read(self._json(answer, question))
        if fact is None and not self._known.is_sglang:
            raise self._foreign()
        if fact is None:
            self._notes.append(f"{self._path(question)} answers in a form that is not known")
            return []
        self._known.is_sglang = True
        return [fact]

    def _ask(self, question: str) -> Answer | None:
        """The answer of the first path that the server knows; None when it knows none. Raises when it wants a key."""
        paths = _PATHS[question]
        position = self._known.paths.get(question, 0)
        while position < len(paths):
            self._known.paths[question] = position
            answer = self._http.get(paths[position])
            if self._latency_s is None:
                self._latency_s = answer.latency_s
            if answer.status in (401, 403):
                why = "refuses this API key" if self._has_key else "asks for an API key"
                raise _NotReadyError("unauthorized", f"{self._http.address} {why} ({self._path(question)})")
            if answer.status not in (404, 405):
                return answer
            position += 1
        self._known.paths[question] = position
        return None

    def _json(self, answer: Answer, question: str) -> Json:
        try:
            return shapes.decode(answer.body)
        except ValueError:
            if not self._known.is_sglang and not answer.body.lstrip().startswith((b"{", b"[")):
                raise self._foreign() from None
            sentence = f"{self._http.address} answers {self._path(question)} with broken JSON"
            raise _NotReadyError("garbage", sentence) from None

    def _path(self, question: str) -> str:
        return _PATHS[question][self._known.paths[question]].partition("?")[0]

    def _foreign(self) -> _NotReadyError:
        return _NotReadyError("foreign", f"what answers on {self._http.address} is not SGLang")

    def _unexpected(self, status: int) -> _NotReadyError:
        who = self._http.address
        if 300 <= status < 400:
            return _NotReadyError("foreign", f"{who} sends callers elsewhere (HTTP {status}), which is not followed")
        if status in (502, 504):
            return _NotReadyError("down", f"a proxy on {who} does not reach the server (HTTP {status})")
        return _NotReadyError("garbage", f"{who} answers {self._path('ready')} with HTTP {status}")
