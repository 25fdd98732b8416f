"""Whether a dead server's GPU memory is back: the driver frees it some seconds after the death."""

import time
from collections.abc import Callable

from tui.facts import GpuReading
from tui.feed.place import Place
from tui.runs.store import Run

# What a driver uses for itself where it does not tell "reserved" apart.
DRIVER_GIB = 1.0


def memory_back(place: Place, run: Run) -> Callable[[], str | None] | None:
    """A function that tells in a sentence who holds memory of a run's server, None when it is all back.

    None for a server on the CPU: the kernel takes a dead process's memory back at once.
    """
    if run.knobs.get("device") == "cpu":
        return None
    pids = {process.pid for process in run.tree}

    def held() -> str | None:
        gpus = place.sample(time.time(), (), host=False).gpus
        return "; ".join(word for gpu in gpus for word in _holders(gpu, pids)) or None

    return held


def _holders(gpu: GpuReading, pids: set[int]) -> list[str]:
    words = [
        f"process {process.pid} ({process.name or 'unknown'}) still holds memory on GPU {gpu.index}"
        for process in gpu.processes
        if process.pid in pids
    ]
    nameless = _nameless_gib(gpu)
    if not words and nameless is not None and nameless > DRIVER_GIB:
        words.append(f"{nameless:.1f} GiB of GPU {gpu.index} are in use by no process that the driver names")
    return words


def _nameless_gib(gpu: GpuReading) -> float | None:
    """In use, less what named processes hold; None where the driver does not name them all."""
    sizes = [process.used_gib for process in gpu.processes]
    if gpu.used_gib is None or gpu.processes_note is not None or None in sizes:
        return None
    return gpu.used_gib - sum(size for size in sizes if size is not None)
