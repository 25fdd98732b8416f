"""What a server's log says while it starts."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Json, LogFact
from tui.frozen import frozen


@frozen
class ServerArgs(LogFact):
    """`server_args=…`, secrets masked. `resolved`: the dict form of SGLang >= 0.5.19. Cut lines give what they hold."""

    args: Mapping[str, Json]
    resolved: bool = False


@frozen
class VersionHint(LogFact):
    """The form of a line is printed only by SGLang in [`at_least`, `at_most`]; either end may be open."""

    at_least: str | None
    at_most: str | None
    why: str


@frozen
class DistributedInit(LogFact):
    """`Init torch distributed …` / `Init parallel …` / `Memory baseline taken.`"""

    done: bool
    used_gib: float | None = None
    elapsed_s: float | None = None


@frozen
class WeightsBegin(LogFact):
    """`Load weight begin. avail mem=…`"""

    avail_gib: float | None


@frozen
class WeightsEnd(LogFact):
    """`Load weight end. …`; builds before 0.4.6 lack `used_gib`. It may be negative, or hold other processes' share."""

    model_class: str | None = None
    dtype: str | None = None
    quant: str | None = None
    avail_gib: float | None = None
    used_gib: float | None = None
    elapsed_s: float | None = None


@frozen
class KvPool(LogFact):
    """`[Full|SWA] KV Cache is allocated. …`. `label`: "kv", "full" or "swa". `gib` is K + V, or the fused KV size."""

    label: str
    tokens: int | None
    gib: float | None
    dtype: str | None = None
    upper_bound: bool = False  # post-capture sizing prints a virtual-address bound first


@frozen
class SwaPool(LogFact):
    """`SWAKVPool mem usage: …`: the sum of the two pools printed just before it."""

    gib: float
    swa_tokens: int | None = None
    full_tokens: int | None = None


@frozen
class StatePool(LogFact):
    """`Mamba Cache is allocated. …`: recurrent state. `gib` sums every part that the line names."""

    gib: float
    slots: int | None = None
    parts_gib: Mapping[str, float] = field(default_factory=dict)


@frozen
class PoolEnd(LogFact):
    """`Memory pool end. avail mem=…`"""

    avail_gib: float | None


@frozen
class GraphBegin(LogFact):
    """A graph capture begins. `name` as in `GraphEnd`."""

    name: str
    avail_gib: float | None = None
    backend: str | None = None
    batch_sizes: tuple[int, ...] = ()


@frozen
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


@frozen
class LoadProgress(LogFact):
    """A checkpoint shard bar: `done` of `total` shards."""

    done: int
    total: int
    percent: float


@frozen
class CaptureProgress(LogFact):
    """A `Capturing batches` / `Capturing num tokens` bar; `avail_gib` is live free memory during the capture."""

    percent: float | None = None
    done: int | None = None
    total: int | None = None
    batch_size: int | None = None
    avail_gib: float | None = None


@frozen
class PoolSummary(LogFact):
    """`max_total_num_tokens=…, chunked_prefill_size=…, …`: one per DP rank."""

    max_total_num_tokens: int
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    max_running_requests: int | None = None
    context_len: int | None = None
    available_gpu_mem_gib: float | None = None


@frozen
class HttpListening(LogFact):
    """`Uvicorn running on …`. Not proof of anything: the port may be another server's."""

    url: str | None = None


@frozen
class ServerReady(LogFact):
    """`The server is fired up and ready to roll!`"""


@frozen
class StartupTimings(LogFact):
    """`Engine startup timings (s): …`: seconds by SGLang's own names; graph phases as "cuda_graph.target_verify"."""

    seconds: Mapping[str, float]
