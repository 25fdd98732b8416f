"""State and phase of the server: which of the supervisor's states it is in, and how far a launch has come."""

from tui.facts import (
    Attached,
    CaptureProgress,
    DistributedInit,
    Endpoint,
    Exited,
    Expectation,
    Fact,
    GraphBegin,
    HttpListening,
    KvPool,
    Launched,
    LoadProgress,
    PoolSummary,
    Problem,
    ServerArgs,
    ServerReady,
    Shutdown,
    StateChange,
    Traceback,
    WeightsBegin,
    WeightsEnd,
)
from tui.session.states import Event, transition
from tui.snapshot import ENDED, Phase, PlotMark, Progress, State

MOST_MARKS = 200
BEFORE_RANKS = (Phase.NONE, Phase.IMPORTING)
# Lines after which no server is left, for logs that nobody saw being written.
DEATHS = {
    "sigquit": "a process of it failed",
    "rank-died": "a scheduler died while it was starting",
    "rank-dead": "a scheduler is dead",
    "subprocess-crashed": "a process of it crashed",
    "process-terminated": "a scheduler or the DP controller ended",
    "init-failed": "initialisation failed",
    "shell-killed": "it was killed",
    "bad-flag": "its command line was refused",
}


class Lifecycle:
    """Folds control facts and start-up lines. An exit before ready is a failed start, whatever the code."""

    def __init__(self) -> None:
        self.state = State.UNKNOWN
        self.reason = ""
        self.phase = Phase.NONE
        self.since: float | None = None
        self.percent: float | None = None
        self.text = ""
        self.launched_at: float | None = None
        self.ready_at: float | None = None
        self.exited: Exited | None = None
        self.marks: list[PlotMark] = []
        self.rank_phases: dict[str, Phase] = {}
        self._weighed: set[str] = set()
        self._expected: Expectation | None = None
        self._endpoint = ""
        self._said_ready: float | None = None
        self._only_log = False  # nothing but a log is watched: its last words are all there is to know of the end

    def apply(self, fact: Fact) -> None:
        match fact:
            case Launched():
                self._begin(fact.at, Event.LAUNCHED, Phase.IMPORTING)
                self._only_log = False
                self.mark(fact.at, "launch")
            case Attached():
                self._begin(None, Event.FOUND, Phase.NONE)
                self._only_log = fact.url is None
            case ServerArgs():
                self._args(fact)
            case DistributedInit() if not fact.done and (fact.rank or "TP0") not in self._weighed:
                self._move(fact, Phase.DISTRIBUTED, fact.rank)
            case WeightsBegin():
                draft = (fact.rank or "TP0") in self._weighed
                self._move(fact, Phase.DRAFT_WEIGHTS if draft else Phase.WEIGHTS, fact.rank)
            case WeightsEnd():
                self._weighed.add(fact.rank or "TP0")
            case KvPool():
                self._move(fact, Phase.KV_POOL, fact.rank)
            case GraphBegin():
                self._move(fact, Phase.GRAPHS, fact.rank)
                self.text = fact.name
            case PoolSummary() | HttpListening():
                self._move(fact, Phase.WARMUP, fact.rank)
            case LoadProgress():
                self.percent, self.text = fact.percent, f"shard {fact.done}/{fact.total}"
            case CaptureProgress():
                self.percent = fact.percent
                self.text = f"graph bs {fact.batch_size}" if fact.batch_size else self.text
            case ServerReady():
                self._said_ready = fact.at
                self._ready(fact.at)
            case Endpoint():
                self._answer(fact)
            case Shutdown():
                self._shut_down(fact)
            case Problem() if self._only_log and fact.code in DEATHS:
                self.died(fact.at, DEATHS[fact.code])
            case Traceback() if self._only_log and fact.rank is None and self.phase in BEFORE_RANKS:
                self.died(fact.at, "it raised an exception while it was starting")
            case StateChange() if fact.state == State.STOPPING and self.state not in ENDED:
                self._enter(fact.at, Event.STOP_ASKED, self.phase, fact.reason)
            case Exited():
                self._exit(fact)
            case Expectation():
                self._expected = fact
            case _:
                pass

    def serving_line(self, at: float) -> None:
        """A batch line in a log whose start was not seen: it serves."""
        if self.phase is Phase.NONE:
            self._enter(at, Event.READY, Phase.SERVING, "batches in the log")

    def died(self, at: float, reason: str) -> None:
        """The log says that the server fell; where a keeper watches, its word (Exited) follows and wins."""
        if self.state not in ENDED:
            self._enter(at, Event.ENDED_BADLY, Phase.ENDED, reason)

    def progress(self) -> Progress:
        expected = self._expected
        return Progress(
            phase=self.phase,
            since=self.since,
            percent=self.percent,
            text=self.text,
            launched_at=self.launched_at,
            expected_phase_s=expected.phases_s.get(self.phase.value) if expected else None,
            expected_total_s=expected.total_s if expected else None,
        )

    def _begin(self, at: float | None, event: Event, phase: Phase) -> None:
        self.state = transition(self.state, event)
        self.phase, self.since, self.reason = phase, at, ""
        self.launched_at, self.ready_at, self.exited = at, None, None
        self.percent, self.text, self._said_ready = None, "", None
        self._weighed.clear()
        self.rank_phases.clear()

    def _args(self, fact: ServerArgs) -> None:
        """Printed once per launch, so in a watched log it is where a life begins."""
        if self.state in (State.UNKNOWN, State.RUNNING, *ENDED):
            self._begin(fact.at, Event.LAUNCHED, Phase.IMPORTING)

    def _move(self, fact: Fact, phase: Phase, rank: str | None) -> None:
        if phase is Phase.WARMUP:
            self.rank_phases.clear()  # nothing grows into a named segment any more
        else:
            self.rank_phases[rank or "TP0"] = phase
        if self.phase in (Phase.SERVING, Phase.STOPPING, Phase.ENDED) or self.phase is phase:
            return
        self.phase, self.since, self.percent, self.text = phase, fact.at, None, ""
        self.state = transition(self.state, Event.STARTS)

    def _ready(self, at: float) -> None:
        if self.state in (State.STOPPING, *ENDED) or self.phase is Phase.SERVING:
            return
        if self._endpoint == "foreign":
            self.reason = "the log says ready, but another program answers on the port"
            return
        self.ready_at = at
        self._enter(at, Event.READY, Phase.SERVING, "")
        self.mark(at, "ready")

    def _answer(self, fact: Endpoint) -> None:
        self._endpoint = fact.state
        # Launched servers are ready when their log says so; of an attached URL only the endpoint can speak.
        if fact.state == "ready" and (self.state is State.UNKNOWN or self._said_ready is not None):
            self._ready(fact.at)

    def _shut_down(self, fact: Shutdown) -> None:
        """SGLang's last line in every end is `kill_process_tree called` (since 0.5.13): then only reaping is left."""
        if self._only_log and "kill_process_tree" in fact.text and self.state not in ENDED:
            served = self.phase in (Phase.SERVING, Phase.STOPPING)
            ended, words = (Event.ENDED_WELL, "") if served else (Event.ENDED_BADLY, "ended before it was ready")
            self._enter(fact.at, ended, Phase.ENDED, words)
        elif self.state in (State.RUNNING, State.STARTING) or (self._only_log and self.state is State.UNKNOWN):
            self._enter(fact.at, Event.STOP_ASKED, Phase.STOPPING, "shutting down")

    def _exit(self, fact: Exited) -> None:
        if self.exited is None:  # else the same end, told twice: by who saw it gone, and by who wrote it down
            self.mark(fact.at, "exit")
        self.exited = fact
        # What its log calls an orderly end nobody need have asked for: only the keeper's word counts.
        self.state = State.STARTING if self.ready_at is None else State.RUNNING
        if fact.requested:
            self.state = transition(self.state, Event.STOP_ASKED)
        words = f"signal {fact.signal}" if fact.signal else f"exit code {fact.code}"
        if self.ready_at is None and not fact.requested:
            words += " before it was ready"
        self._enter(fact.at, Event.ENDED_WELL if fact.code == 0 else Event.ENDED_BADLY, Phase.ENDED, words)

    def _enter(self, at: float, event: Event, phase: Phase, reason: str) -> None:
        if phase is not self.phase:
            self.since, self.percent, self.text = at, None, ""
        self.state = transition(self.state, event)
        self.phase, self.reason = phase, reason

    def mark(self, at: float, text: str) -> None:
        """Put a mark on the plot; of very many the newest are kept."""
        self.marks.append(PlotMark(at=at, text=text))
        del self.marks[:-MOST_MARKS]
