"""Preflight findings about GPUs and host. Pure."""

from collections.abc import Sequence
from typing import Literal

from tui.facts import GpuReading
from tui.frozen import frozen
from tui.patterns import lazy
from tui.sglang.memknobs import MemoryKnobs

GIB = 1 << 30
_BALANCE = 0.9  # SGLang refuses when one GPU has less than this share of another's free memory
_NOTABLE_GIB = 0.3
_SHM_BYTES = GIB  # NCCL keeps its buffers there; containers get 64 MiB unless told otherwise
_OPEN_FILES = 8192
_LOG_LEAST, _LOG_GOOD = 64 << 20, GIB
_ARCH = lazy(r"(sm|compute)_(\d+)(\d)([a-z]?)")


@frozen(kw_only=False)
class Finding:
    """`severity` "error": the launch will fail. `fix` begins in lower case. `kind`: a verdict kind."""

    severity: Literal["error", "warning"]
    text: str
    fix: str
    kind: str = "unknown"


def ranks_of(knobs: MemoryKnobs) -> int:
    """GPUs that a server takes."""
    copies = 1 if knobs.dp_attention else knobs.dp_size or 1
    return knobs.tp * knobs.pp * copies


def gpu_findings(
    knobs: MemoryKnobs,
    gpus: Sequence[GpuReading],
    gpus_read: bool,
    own_pids: frozenset[int],
    arch_list: Sequence[str],
) -> list[Finding]:
    """`gpus`: those that the server sees."""
    if not gpus_read:
        return []
    ranks, found = ranks_of(knobs), []
    if ranks > len(gpus):
        text = f"The server takes {ranks} GPUs (tp {knobs.tp} x pp {knobs.pp}) and sees {len(gpus)}."
        found.append(Finding("error", text, "lower --tp-size, or look at CUDA_VISIBLE_DEVICES", "does-not-fit"))
    used = gpus[:ranks]
    for gpu in used:
        found += _broken(gpu) + _occupied(gpu, own_pids) + _architecture(gpu, arch_list)
    return found + _unequal(used, knobs, own_pids)


def _broken(gpu: GpuReading) -> list[Finding]:
    if gpu.error is None:
        return []
    return [Finding("error", f"GPU {gpu.index} does not answer: {gpu.error}.", "reset it, or leave it out", "kernel")]


def _occupied(gpu: GpuReading, own_pids: frozenset[int]) -> list[Finding]:
    others = [process for process in gpu.processes if process.pid not in own_pids]
    sizes = [process.used_gib for process in others if process.used_gib is not None]
    if not others or (sizes and len(sizes) == len(others) and sum(sizes) < _NOTABLE_GIB):
        return []
    names = ", ".join(f"{process.name or 'process'} {process.pid}" for process in others[:3])
    held = f" with {sum(sizes):.1f} GiB" if sizes else ""
    text = f"GPU {gpu.index} is used by others{held}: {names}."
    return [Finding("warning", text, "end them, or choose other GPUs with CUDA_VISIBLE_DEVICES", "gpu-shared")]


def _unequal(gpus: Sequence[GpuReading], knobs: MemoryKnobs, own_pids: frozenset[int]) -> list[Finding]:
    found = []
    sizes = {round(gpu.total_gib) for gpu in gpus if gpu.total_gib is not None}
    if len(sizes) > 1:
        listed = " and ".join(f"{size} GiB" for size in sorted(sizes))
        text = f"The GPUs are unequal ({listed}): every rank gets what the smallest can hold."
        found.append(Finding("warning", text, "choose equal GPUs with CUDA_VISIBLE_DEVICES", "gpu-shared"))
    free = [(gib, gpu.index) for gpu in gpus if (gib := _free_after_stop(gpu, own_pids)) is not None]
    if knobs.tp > 1 and len(free) > 1:
        (least, index), (most, _) = min(free), max(free)
        if least < _BALANCE * most:
            text = f"GPU {index} has {least:.1f} GiB free and another {most:.1f}: SGLang refuses less than 90 %."
            found.append(Finding("error", text, f"free GPU {index}, or choose other GPUs", "gpu-shared"))
    return found


def _free_after_stop(gpu: GpuReading, own_pids: frozenset[int]) -> float | None:
    """Free memory once our own server is stopped."""
    if gpu.free_gib is None:
        return None
    return gpu.free_gib + sum(process.used_gib or 0.0 for process in gpu.processes if process.pid in own_pids)


def _architecture(gpu: GpuReading, arch_list: Sequence[str]) -> list[Finding]:
    if gpu.compute_capability is None or not arch_list or runs_on(gpu.compute_capability, arch_list):
        return []
    text = (
        f"GPU {gpu.index} ({gpu.name}) is of architecture {gpu.compute_capability} and the server's torch is built for "
        f"{', '.join(arch_list)}."
    )
    return [Finding("error", text, "install a torch built for this GPU", "kernel")]


def runs_on(capability: str, arch_list: Sequence[str]) -> bool:
    """Whether code of these architectures runs on a GPU of a compute capability such as "8.9".

    Binaries run on the same major and an equal or later minor version, PTX on everything later; with an "a" ("sm_90a")
    on that one version alone.
    """
    major_text, _, minor_text = capability.partition(".")
    if not (major_text.isdigit() and minor_text.isdigit()):
        return True
    have = (int(major_text), int(minor_text))
    for name in arch_list:
        match = _ARCH.fullmatch(name)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if match[4] == "a":
            fits = built == have
        elif match[1] == "compute":
            fits = built <= have
        else:
            fits = built[0] == have[0] and built[1] <= have[1]
        if fits:
            return True
    return False


def host_findings(
    knobs: MemoryKnobs, shm_bytes: int | None, open_files: int | None, log_folder: str, log_free_bytes: int | None
) -> list[Finding]:
    """/dev/shm, the limit on open files (-1: none), room for the log."""
    found = []
    if ranks_of(knobs) > 1 and shm_bytes is not None and shm_bytes < _SHM_BYTES:
        text = f"/dev/shm holds {shm_bytes / (1 << 20):.0f} MiB, and ranks exchange data through it."
        found.append(Finding("warning", text, "start the container with --shm-size 16g or --ipc host", "network"))
    if open_files is not None and 0 <= open_files < _OPEN_FILES:
        text = f"At most {open_files} files may be open, and each connection and shard is one."
        found.append(Finding("warning", text, "raise the hard limit: ulimit -Hn 65535", "unknown"))
    if log_free_bytes is not None and log_free_bytes < _LOG_GOOD:
        severity: Literal["error", "warning"] = "error" if log_free_bytes < _LOG_LEAST else "warning"
        text = f"{log_folder} has {log_free_bytes / (1 << 20):.0f} MiB left for the log."
        fix = "free some space, or set SPECDECK_STATE_DIR to a folder on another disk"
        found.append(Finding(severity, text, fix, "unknown"))
    return found
