"""One GPU, or one MIG instance, through nvidia-ml-py: who it is (slow) and how it stands (every tick).

Every function takes the module as `nvml`, so that nothing here imports it. Every sensor is optional: what a driver
does not tell is None, and only memory that cannot be read at all is an error of the whole GPU.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tui.facts import GpuProcess, GpuReading
from tui.frozen import frozen
from tui.patterns import lazy
from tui.sources.nvml_words import FUNCTION_NOT_FOUND, NO_PERMISSION, NOT_SUPPORTED
from tui.sources.proctree import process_title

GIB = 1 << 30

# GPUs that have no memory of their own. Some drivers answer for them with numbers that mean nothing, so the name
# decides. Grace superchips (GH200, GB200) are not among them: they have HBM and tell it.
_INTEGRATED = lazy(r"\b(GB10|Jetson|Tegra|Orin|Xavier|Thor)\b", re.IGNORECASE)

# Between the driver's count and the sum of the processes: contexts and pages that belong to nobody.
_UNNAMED_GIB = 1.0
_UNNAMED_SHARE = 0.25

# The inode of the initial pid namespace (Linux, include/linux/proc_ns.h, PROC_PID_INIT_INO).
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC

_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


@frozen(kw_only=False)
class Device:
    """What does not change while the driver is up. `handle` is NVML's; `index` of a MIG instance is its GPU's."""

    handle: Any
    index: int
    uuid: str
    name: str
    kind: str  # "gpu" or "mig"
    compute_capability: str | None = None


@frozen(kw_only=False)
class _Memory:
    """Bytes."""

    total: int
    used: int
    free: int
    reserved: int | None = None
    unified: bool = False


def failures(nvml: Any) -> tuple[type[BaseException], ...]:
    """What a call may raise: NVML's errors, the plain Exception for a mismatch, names an older nvidia-ml-py lacks."""
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
    return (nvml.NVMLError, mismatch, AttributeError, UnicodeDecodeError)


def identify(nvml: Any, index: int) -> list[Device]:
    """The GPU of this index, or its MIG instances when it is divided. Raises NVML's error when it cannot be had."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu = Device(
        handle=handle,
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(_optional(nvml, nvml.nvmlDeviceGetName, handle) or "NVIDIA GPU"),
        kind="gpu",
        compute_capability=_capability(nvml, handle),
    )
    return list(_instances(nvml, gpu)) or [gpu]


def read(nvml: Any, device: Device) -> GpuReading:
    """How the device stands now. Raises NVML's error when its memory cannot be read."""
    memory = _memory(nvml, device)
    processes, refused = _processes(nvml, device.handle)
    unified = memory.unified
    note = refused or (None if unified else _doubt(memory.used, processes))
    return GpuReading(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        kind="unified" if unified else device.kind,
        total_gib=memory.total / GIB,
        used_gib=memory.used / GIB,
        free_gib=memory.free / GIB,
        reserved_gib=None if memory.reserved is None else memory.reserved / GIB,
        compute_capability=device.compute_capability,
        util_percent=_utilization(nvml, device),
        power_w=_power(nvml, device),
        temperature_c=_temperature(nvml, device),
        processes=processes,
        processes_note=note,
    )


# ------------------------------------------------------------------------------------------- identity


def _instances(nvml: Any, gpu: Device) -> Iterator[Device]:
    mode = _optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(gpu.handle))
    if not mode or not mode[0]:
        return
    for slot in range(_optional(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)) or 0):
        handle = _optional(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, slot)
        uuid = None if handle is None else _optional(nvml, nvml.nvmlDeviceGetUUID, handle)
        if uuid is None:
            continue  # the slot is empty
        name = _optional(nvml, nvml.nvmlDeviceGetName, handle)
        yield Device(
            handle=handle,
            index=gpu.index,
            uuid=_text(uuid),
            name=_text(name) if name else f"{gpu.name} MIG {slot}",
            kind="mig",
            compute_capability=gpu.compute_capability,
        )


def _capability(nvml: Any, handle: Any) -> str | None:
    pair = _optional(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return f"{pair[0]}.{pair[1]}" if pair else None


# --------------------------------------------------------------------------------------------- memory


def _memory(nvml: Any, device: Device) -> _Memory:
    if _INTEGRATED.search(device.name):
        return _host_memory()
    info = _optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle, version=nvml.nvmlMemory_v2))
    if info is not None and info.total:
        return _Memory(total=info.total, used=info.used, free=info.free, reserved=info.reserved)
    try:
        # Version 1 counts what the driver keeps for itself as used.
        info = nvml.nvmlDeviceGetMemoryInfo(device.handle)
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == NOT_SUPPORTED and device.kind == "gpu":
            return _host_memory()
        raise
    if info.total:
        return _Memory(total=info.total, used=info.used, free=info.free)
    if device.kind == "gpu":
        return _host_memory()
    raise nvml.NVMLError(NOT_SUPPORTED)


def _host_memory() -> _Memory:
    import psutil

    host = psutil.virtual_memory()
    return _Memory(total=host.total, used=host.total - host.available, free=host.available, unified=True)


# ------------------------------------------------------------------------------------------ processes


def _processes(nvml: Any, handle: Any) -> tuple[tuple[GpuProcess, ...], str | None]:
    """The processes on the device, and why the list is not whole, if it is known not to be.

    A process may stand in several lists with the same number, so the largest counts, not the sum.
    """
    used: dict[int, int | None] = {}
    refused: str | None = None
    for number, name in enumerate(_LISTS):
        try:
            entries = _running(nvml, name, handle)
        except failures(nvml) as error:
            # Only the compute list matters here; the others are missing on many drivers.
            if number == 0:
                denied = getattr(error, "value", None) == NO_PERMISSION
                refused = "hidden (no permission)" if denied else "not told by the driver"
            continue
        for entry in entries:
            known = used.get(entry.pid)
            told = entry.usedGpuMemory
            used[entry.pid] = told if known is None else known if told is None else max(known, told)
    found = (
        GpuProcess(pid=pid, used_gib=None if size is None else size / GIB, name=process_title(pid))
        for pid, size in sorted(used.items())
    )
    return tuple(found), refused


def _running(nvml: Any, name: str, handle: Any) -> list[Any]:
    """Versioned calls: the unversioned one raises a plain Exception on an older driver."""
    for suffix in ("_v3", "_v2"):
        try:
            return list(getattr(nvml, name + suffix)(handle))
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != FUNCTION_NOT_FOUND:
                raise
    raise AttributeError(name)


def _doubt(used: int, processes: tuple[GpuProcess, ...]) -> str | None:
    """Why the processes cannot be all that hold memory; None when they may be."""
    if _under_wsl() and any(process.used_gib is None for process in processes):
        return "their memory is not told under WSL"
    if any(process.used_gib is None for process in processes):
        return None
    unnamed = used / GIB - sum(process.used_gib or 0.0 for process in processes)
    if unnamed <= max(_UNNAMED_GIB, _UNNAMED_SHARE * used / GIB):
        return None
    return "hidden (container)" if _in_container() else f"{unnamed:.1f} GiB are held by no process that can be seen"


@cache
def _in_container() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE
    except OSError:
        return False


@cache
def _under_wsl() -> bool:
    try:
        return "microsoft" in Path("/proc/sys/kernel/osrelease").read_text().lower()
    except OSError:
        return False


# -------------------------------------------------------------------------------------------- sensors


def _utilization(nvml: Any, device: Device) -> float | None:
    if device.kind == "mig":
        return None
    rates = _optional(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(device.handle))
    return None if rates is None else float(rates.gpu)


def _power(nvml: Any, device: Device) -> float | None:
    milliwatts = _optional(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(device.handle))
    return None if milliwatts is None else milliwatts / 1000


def _temperature(nvml: Any, device: Device) -> float | None:
    degrees = _optional(nvml, lambda: nvml.nvmlDeviceGetTemperature(device.handle, nvml.NVML_TEMPERATURE_GPU))
    return None if degrees is None else float(degrees)


def _optional(nvml: Any, call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except failures(nvml):
        return None


def _text(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(c if c.isprintable() else "�" for c in text)
