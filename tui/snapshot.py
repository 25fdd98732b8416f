"""What a view may know: the immutable Snapshot that `tui.session.Session` makes of facts.

Views draw these values and nothing else. Memory is GiB, times are Unix seconds, speeds are tokens per second, and None
is "not known", drawn as –.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from tui.facts import Verdict
from tui.frozen import frozen
from tui.sglang.rankledger import RankMemory as RankMemory


class Source(StrEnum):
    """Where a number comes from; the earlier one beats the later ones."""

    MEASURED = "measured"
    LEARNED = "learned"
    COMPUTED = "computed"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


@frozen
class Amount:
    """A number of GiB with its origin. `why`: the log line, equation or reason, for the operator who asks."""

    gib: float | None = None
    source: Source = Source.UNKNOWN
    why: str = ""
    low_gib: float | None = None  # the interval of an estimate
    high_gib: float | None = None


UNKNOWN = Amount()

# The segments of one GPU bar, left to right.
SEGMENTS = ("base", "draft", "graphs", "kv", "other", "foreign", "free")


class State(StrEnum):
    """The supervisor's words for a server."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    FAILED = "failed"
    UNKNOWN = "unknown"


ENDED = (State.EXITED, State.FAILED, State.STOPPED)


class Phase(StrEnum):
    """How far a launch has come, in SGLang's order; the text is what the status line says."""

    NONE = "no server"
    IMPORTING = "importing"
    DISTRIBUTED = "initialising ranks"
    WEIGHTS = "loading weights"
    DRAFT_WEIGHTS = "loading draft weights"
    KV_POOL = "allocating KV cache"
    GRAPHS = "capturing CUDA graphs"
    WARMUP = "warming up"
    SERVING = "serving"
    STOPPING = "stopping"
    ENDED = "ended"


@frozen
class Progress:
    """The phase in numbers. `percent` 0..100, None where SGLang prints no bar; `expected_*` come from earlier runs."""

    phase: Phase
    since: float | None = None
    percent: float | None = None
    text: str = ""  # "shard 12/64", "graph bs 64"
    launched_at: float | None = None
    expected_phase_s: float | None = None
    expected_total_s: float | None = None


@frozen
class GpuBar:
    """One bar. The segments sum to `total_gib` where all are known. `kv_used_gib` of the kv hold tokens now.

    `budget_gib`: where the static budget (the memory fraction) ends, measured from the left edge of the bar, so that
    base + draft (+ kv) that cross it are seen. `tight`: the GPU with the least free memory, by which all is judged.
    """

    index: int
    name: str
    uuid: str = ""
    kind: str = "gpu"
    rank: str | None = None
    total_gib: float | None = None
    segments: Mapping[str, Amount] = field(default_factory=dict)  # keys: SEGMENTS
    kv_used_gib: float | None = None
    budget_gib: float | None = None
    tight: bool = False
    util_percent: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    foreign: tuple[str, ...] = ()  # "python 4242: 3.1 GiB"
    note: str = ""
    error: str | None = None


@frozen
class Point:
    """One moment of the plot. Every field but the time may be None: nothing is drawn there."""

    at: float
    gen_tok_s: float | None = None
    accept_len: float | None = None
    token_usage: float | None = None
    running: int | None = None
    queue: int | None = None


@frozen
class PlotMark:
    """A vertical mark on the plot: launch, ready, exit, knob change, note."""

    at: float
    text: str


@frozen
class Caution:
    """Something to look at while the server runs; it goes away with its cause. `kind` as in verdicts."""

    kind: str
    text: str
    since: float | None = None


@frozen
class Ages:
    """Seconds since each source last said something, at the snapshot's time; None: never."""

    log_s: float | None = None
    gpu_s: float | None = None
    endpoint_s: float | None = None


@frozen
class Knob:
    """A launch flag in force. `origin`: "profile", "server" (resolved by SGLang) or "command line"."""

    name: str
    value: Any
    origin: str = "profile"


@frozen
class Snapshot:
    """Everything a view draws, at one moment."""

    at: float
    opening: bool = False  # nothing has been looked at yet: what is not told here may be there
    state: State = State.UNKNOWN
    state_reason: str = ""
    run: str | None = None
    profile: str | None = None
    title: str = ""  # what the status line calls the server: profile, URL, log file
    rehearsal: bool = False
    replay: bool = False  # a recorded run is played
    playback: str = ""  # how, and where in it: "10x, 3:20 of 18:05"
    controlled: bool = False  # launched or adopted by specdeck: may be stopped from here
    sglang_version: str | None = None
    version_note: str = ""  # "0.5.3–0.5.9, by the form of the log" when the version is not told
    model: str | None = None
    url: str | None = None
    endpoint: str = ""  # facts.Endpoint.state
    endpoint_detail: str = ""
    progress: Progress = Progress(phase=Phase.NONE)
    ready_at: float | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    exited_at: float | None = None
    knobs: tuple[Knob, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)  # server_args, secrets masked
    fraction: float | None = None  # mem_fraction_static in force
    ranks: tuple[RankMemory, ...] = ()
    gpus: tuple[GpuBar, ...] = ()
    gpu_error: str | None = None
    kv_tokens: int | None = None  # max_total_num_tokens
    token_usage: float | None = None  # 0..1 of the pool
    gen_tok_s: float | None = None
    accept_len: float | None = None
    running: int | None = None
    queue: int | None = None
    max_running_requests: int | None = None
    context_len: int | None = None
    economy: str = ""  # whether speculation pays, in a sentence; empty without speculation
    baseline_tok_s: float | None = None  # what the pinned baseline did at this batch size
    points: tuple[Point, ...] = ()
    marks: tuple[PlotMark, ...] = ()
    log_lines: int = 0
    error_lines: tuple[int, ...] = ()
    ages: Ages = Ages()
    disagreements: tuple[str, ...] = ()  # two sources more than 3 % apart, in words
    warnings: tuple[Caution, ...] = ()
    verdict: Verdict | None = None
