"""The vocabulary: every type that crosses a boundary.

A *fact* is a frozen dataclass with a time. Sources make facts, `tui.session` folds them, a recording is their JSON
lines (`tui.factlines`). Memory is GiB (SGLang writes "GB"), times are Unix seconds, speeds are tokens per second.
A field that nobody reported is None: unknown is never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any  # what `json.loads` gives

# ---------------------------------------------------------------------------------------------- base


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that was observed. `at`: Unix seconds; of a log line the line's own stamp where it has one."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFact(Fact):
    """What one log record says. `line` is its 1-based number; `rank` such as "TP0" or "DP0 TP0", None without a tag."""

    line: int
    rank: str | None = None


# ---------------------------------------------------------------------------------------------- log: start-up


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs(LogFact):
    """`server_args=…`, secrets masked. `resolved`: the dict form of SGLang >= 0.5.19. Cut lines give what they hold."""

    args: Mapping[str, Json]
    resolved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHint(LogFact):
    """The form of a line is printed only by SGLang in [`at_least`, `at_most`]; either end may be open."""

    at_least: str | None
    at_most: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedInit(LogFact):
    """`Init torch distributed …` / `Init parallel …` / `Memory baseline taken.`"""

    done: bool
    used_gib: float | None = None
    elapsed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsBegin(LogFact):
    """`Load weight begin. avail mem=…`"""

    avail_gib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEnd(LogFact):
    """`Load weight end. …`; builds before 0.4.6 lack `used_gib`. It may be negative, or hold other processes' share."""

    model_class: str | None = None
    dtype: str | None = None
    quant: str | None = None
    avail_gib: float | None = None
    used_gib: float | None = None
    elapsed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPool(LogFact):
    """`[Full|SWA] KV Cache is allocated. …`. `label`: "kv", "full" or "swa". `gib` is K + V, or the fused KV size."""

    label: str
    tokens: int | None
    gib: float | None
    dtype: str | None = None
    upper_bound: bool = False  # post-capture sizing prints a virtual-address bound first


@dataclass(frozen=True, slots=True, kw_only=True)
class SwaPool(LogFact):
    """`SWAKVPool mem usage: …`: the sum of the two pools printed just before it."""

    gib: float
    swa_tokens: int | None = None
    full_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePool(LogFact):
    """`Mamba Cache is allocated. …`: recurrent state. `gib` sums every part that the line names."""

    gib: float
    slots: int | None = None
    parts_gib: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnd(LogFact):
    """`Memory pool end. avail mem=…`"""

    avail_gib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBegin(LogFact):
    """A graph capture begins. `name` as in `GraphEnd`."""

    name: str
    avail_gib: float | None = None
    backend: str | None = None
    batch_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEnd(LogFact):
    """A graph capture ended. `used_gib` may be negative: memory was released during the capture.

    `name`: "target decode", "target verify", "target prefill", "draft decode", "draft extend", "draft prefill", or
    SGLang's own words.
    """

    name: str
    used_gib: float | None = None
    avail_gib: float | None = None
    elapsed_s: float | None = None
    batch_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress(LogFact):
    """A checkpoint shard bar: `done` of `total` shards."""

    done: int
    total: int
    percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureProgress(LogFact):
    """A `Capturing batches` / `Capturing num tokens` bar; `avail_gib` is live free memory during the capture."""

    percent: float | None = None
    done: int | None = None
    total: int | None = None
    batch_size: int | None = None
    avail_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSummary(LogFact):
    """`max_total_num_tokens=…, chunked_prefill_size=…, …`: one per DP rank."""

    max_total_num_tokens: int
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    max_running_requests: int | None = None
    context_len: int | None = None
    available_gpu_mem_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpListening(LogFact):
    """`Uvicorn running on …`. Not proof of anything: the port may be another server's."""

    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReady(LogFact):
    """`The server is fired up and ready to roll!`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupTimings(LogFact):
    """`Engine startup timings (s): …`: seconds by SGLang's own names; graph phases as "cuda_graph.target_verify"."""

    seconds: Mapping[str, float]


# ---------------------------------------------------------------------------------------------- log: serving


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeBatch(LogFact):
    """`Decode batch …`. `accept_len` counts the bonus token (>= 1.0). `accept_rate` changed meaning: never use it."""

    running: int | None = None
    queue: int | None = None
    tokens: int | None = None
    token_usage: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None
    gen_tok_s: float | None = None
    graph: bool | None = None
    more: Mapping[str, float] = field(default_factory=dict)  # swa/mamba/PD fields under SGLang's own names


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillBatch(LogFact):
    """`Prefill batch …`."""

    new_seq: int | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    token_usage: float | None = None
    running: int | None = None
    queue: int | None = None
    input_tok_s: float | None = None
    more: Mapping[str, float] = field(default_factory=dict)


# ---------------------------------------------------------------------------------------------- log: trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(LogFact):
    """A line that SGLang, torch, NCCL, argparse, uvicorn or the shell prints when something is wrong.

    `code` is one of `tui.sglang.problems.CODES`; `numbers` holds what the line measures (GiB, tokens, exit codes…).
    """

    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback(LogFact):
    """One Python traceback of one rank: lines `line`..`last_line`. `exception` None: the end was cut off.

    `chain` lists the exceptions it was raised from, oldest first, as "Type: message". `where` are its frames,
    outermost first, as "function (file:line)". `head_cut`: it does not start with "Traceback".
    """

    last_line: int
    exception: str | None
    message: str
    chain: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    head_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(LogFact):
    """An orderly stop is under way (SIGTERM/SIGINT lines, draining, `kill_process_tree called`)."""

    text: str
    remaining_requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail(Fact):
    """How far the log was read: `lines` so far, `bytes` so far. `at` is when it was seen to grow."""

    lines: int
    bytes: int
    reset: str | None = None  # "rotated", "truncated", "replaced", "vanished"
    error: str | None = None


# ---------------------------------------------------------------------------------------------- GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds memory on a GPU. `used_gib` None: the driver does not say (WSL, MIG, no permission)."""

    pid: int
    used_gib: float | None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU, MIG instance or host memory at one moment. With `error`, in words, the rest is unknown."""

    index: int
    uuid: str
    name: str
    kind: str = "gpu"  # "gpu", "mig", "unified", "host"
    total_gib: float | None = None
    used_gib: float | None = None
    free_gib: float | None = None
    reserved_gib: float | None = None
    compute_capability: str | None = None
    util_percent: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[GpuProcess, ...] = ()
    processes_note: str | None = None  # why the list cannot be trusted, e.g. "hidden (container)"
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample(Fact):
    """All GPUs of the machine. `error`: no GPU could be read at all, in words."""

    source: str  # "nvml", "host", "rehearsal"
    gpus: tuple[GpuReading, ...] = ()
    driver: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcesses(Fact):
    """The server's process tree (pids, names by setproctitle) and the GPUs it was given, in rank order, by UUID."""

    pids: tuple[int, ...]
    names: Mapping[str, str] = field(default_factory=dict)  # pid -> title; JSON keys are strings
    visible_uuids: tuple[str, ...] | None = None  # None: CUDA_VISIBLE_DEVICES unset, all of them
    rss_gib: float | None = None
    keeper_gone: bool = False  # it was launched by a keeper that runs no more


# ---------------------------------------------------------------------------------------------- endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Fact):
    """Whether the server answers. `detail` is a sentence.

    `state`: "ready", "starting", "draining", "down", "unauthorized", "foreign" (another program), "slow", "garbage".
    """

    url: str
    state: str
    detail: str = ""
    latency_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMemory:
    """`internal_states[i].memory_usage`: tp_rank 0 of DP rank i, the target only (but all graphs since 0.5.17)."""

    weight_gib: float | None = None
    kvcache_gib: float | None = None
    token_capacity: int | None = None
    graphs_gib: Mapping[str, float] = field(default_factory=dict)
    startup_available_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo(Fact):
    """`/server_info` (or `/get_server_info`), secrets masked."""

    version: str | None
    args: Mapping[str, Json]
    status: str | None = None
    launch_command: str | None = None
    max_total_num_tokens: int | None = None
    memory: tuple[StateMemory, ...] = ()
    last_gen_tok_s: tuple[float | None, ...] = ()
    avg_accept_len: tuple[float | None, ...] = ()
    startup_time_s: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLoad:
    """One entry of `/v1/loads` (or `/get_load`). `stamp`, the scheduler's time, stands still when that rank is dead."""

    dp_rank: int
    running: int | None = None
    waiting: int | None = None
    used_tokens: int | None = None
    max_total_num_tokens: int | None = None
    token_usage: float | None = None
    gen_tok_s: float | None = None
    accept_len: float | None = None
    retracted: int | None = None
    stamp: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads(Fact):
    """`/v1/loads`: live load of each DP rank."""

    loads: tuple[RankLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMetrics:
    """`/metrics` of one DP rank: counters (`*_total`) and gauges, under SGLang's names without the prefix."""

    dp_rank: int | None
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Fact):
    """`/metrics`: the families in `tui.sources.metrics.WANTED`, one entry per DP rank plus one for unlabelled ones."""

    ranks: tuple[RankMetrics, ...]


# ---------------------------------------------------------------------------------------------- control


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process for life; a pid alone may be a stranger's tomorrow. `start_ticks`: field 22 of /proc/<pid>/stat."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched(Fact):
    """A server was started (or adopted). `env` is the difference to the operator's environment, secrets masked."""

    run: str
    profile: str
    command: tuple[str, ...]
    knobs: Mapping[str, Json]
    env: Mapping[str, str] = field(default_factory=dict)
    server: ProcessId | None = None
    keeper: ProcessId | None = None
    url: str | None = None
    sglang_version: str | None = None
    rehearsal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached(Fact):
    """Watching a server that somebody else started: by log, URL or pid."""

    target: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange(Fact):
    """A transition of the state machine: stopped, starting, running, stopping, exited, failed, unknown."""

    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled(Fact):
    """A signal was sent, by whom and to which pids."""

    signal: str
    pids: tuple[int, ...]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited(Fact):
    """The server process ended: exit `code`, or `signal` (name) that ended it."""

    code: int | None
    signal: str | None = None
    requested: bool = False  # an operator asked for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(Fact):
    """How long each phase took in earlier runs of the same profile, seconds by `tui.snapshot.Phase` value."""

    run: str
    phases_s: Mapping[str, float]
    total_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedAt:
    """Throughput of one rank at one batch size, tokens per second: see `tui.sglang.economics.BatchSpeed`."""

    batch: int
    tok_s: float
    samples: int = 1
    low: float | None = None
    high: float | None = None
    accept_len: float | None = None
    context_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSpeeds(Fact):
    """What an earlier run measured. `role`: "plain", the newest run of this model without speculation, or "baseline",
    the run that the operator pinned. Without speeds: there is none (any more)."""

    role: str
    run: str = ""
    speeds: tuple[SpeedAt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Fact):
    """A moment worth a tick on the plot: a restart, a knob change, an operator's note."""

    text: str


# ---------------------------------------------------------------------------------------------- verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A log line that speaks for the verdict."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change of one knob. `old`/`new` as on the command line; None means not given / remove it."""

    knob: str
    old: Json
    new: Json
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong. `kind` is one of `tui.sglang.verdicts.KINDS`; `confidence`: "certain", "likely" or "unknown"."""

    kind: str
    title: str
    why: str
    confidence: str
    evidence: tuple[Evidence, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    fixes: tuple[Fix, ...] = ()

    @property
    def remedy(self) -> tuple[Fix, ...]:
        """What to apply together. Fixes are alternatives, the best first; only a flag's renaming is a removal and an
        addition that belong together."""
        return self.fixes if self.kind == "bad-flag" else self.fixes[:1]
