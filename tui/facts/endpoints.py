"""What the server's HTTP endpoints answer."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Fact, Json
from tui.frozen import frozen


@frozen
class Endpoint(Fact):
    """Whether the server answers. `detail` is a sentence.

    `state`: "ready", "starting", "draining", "down", "unauthorized", "foreign" (another program), "slow", "garbage".
    """

    url: str
    state: str
    detail: str = ""
    latency_s: float | None = None


@frozen
class StateMemory:
    """`internal_states[i].memory_usage`: tp_rank 0 of DP rank i, the target only (but all graphs since 0.5.17)."""

    weight_gib: float | None = None
    kvcache_gib: float | None = None
    token_capacity: int | None = None
    graphs_gib: Mapping[str, float] = field(default_factory=dict)
    startup_available_gib: float | None = None


@frozen
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


@frozen
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


@frozen
class Loads(Fact):
    """`/v1/loads`: live load of each DP rank."""

    loads: tuple[RankLoad, ...]


@frozen
class RankMetrics:
    """`/metrics` of one DP rank: counters (`*_total`) and gauges, under SGLang's names without the prefix."""

    dp_rank: int | None
    values: Mapping[str, float]


@frozen
class Metrics(Fact):
    """`/metrics`: the families in `tui.sources.metrics.WANTED`, one entry per DP rank plus one for unlabelled ones."""

    ranks: tuple[RankMetrics, ...]
