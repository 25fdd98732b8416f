"""What the machine says: GPUs and processes."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Fact
from tui.frozen import frozen


@frozen
class GpuProcess:
    """A process that holds memory on a GPU. `used_gib` None: the driver does not say (WSL, MIG, no permission)."""

    pid: int
    used_gib: float | None
    name: str | None = None


@frozen
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


@frozen
class GpuSample(Fact):
    """All GPUs of the machine. `error`: no GPU could be read at all, in words."""

    source: str  # "nvml", "host", "rehearsal"
    gpus: tuple[GpuReading, ...] = ()
    driver: str | None = None
    error: str | None = None


@frozen
class ServerProcesses(Fact):
    """The server's process tree (pids, names by setproctitle) and the GPUs it was given, in rank order, by UUID."""

    pids: tuple[int, ...]
    names: Mapping[str, str] = field(default_factory=dict)  # pid -> title; JSON keys are strings
    visible_uuids: tuple[str, ...] | None = None  # None: CUDA_VISIBLE_DEVICES unset, all of them
    rss_gib: float | None = None
    keeper_gone: bool = False  # it was launched by a keeper that runs no more
