"""Host RAM as one bar, for a server with `--device cpu`. Synchronous, under a millisecond for a server's tree."""

import os
from collections.abc import Iterable
from pathlib import Path

from tui.facts import GpuProcess, GpuReading, GpuSample
from tui.sources.proctree import process_title

GIB = 1 << 30
OTHERS_PID = 0  # no process of a server has it


class HostSource:
    """Reads /proc."""

    def sample(self, now: float, pids: Iterable[int] = ()) -> GpuSample:
        """The machine's memory at `now` (Unix seconds), with the processes of the server among `pids` that live.

        Used is what cannot be had for the asking: total less available and less what the kernel keeps ready for each
        CPU, so the page cache counts as free. Of a process that is its anonymous and shared memory, without mapped
        files. What remains is one entry of pid 0.
        """
        import psutil

        try:
            memory = psutil.virtual_memory()
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            return GpuSample(at=now, source="host", error=f"the memory of this machine cannot be read: {error}")
        free = min(memory.total, memory.available + ready_bytes()) / GIB
        used = memory.total / GIB - free
        processes = tuple(
            GpuProcess(pid=pid, used_gib=size / GIB, name=process_title(pid))
            for pid in sorted(set(pids))
            if (size := occupied_bytes(pid)) is not None
        )
        others = used - sum(process.used_gib or 0.0 for process in processes)
        return GpuSample(
            at=now,
            source="host",
            gpus=(
                GpuReading(
                    index=0,
                    uuid="host",
                    name="host RAM",
                    kind="host",
                    total_gib=memory.total / GIB,
                    used_gib=used,
                    free_gib=free,
                    processes=(
                        *processes,
                        GpuProcess(pid=OTHERS_PID, used_gib=max(0.0, others), name="other programs"),
                    ),
                ),
            ),
        )


def ready_bytes(zoneinfo: Path = Path("/proc/zoneinfo")) -> int:
    """Free memory on the kernel's lists of the CPUs, which MemAvailable leaves out; 0 where it cannot be read.

    A large process that ends leaves up to an eighth of the machine there, and the next one that starts gets it first.
    """
    try:
        lines = zoneinfo.read_text().splitlines()
    except OSError:
        return 0
    pages = (line.split() for line in lines if line.lstrip().startswith("count:"))
    return sum(int(words[1]) for words in pages) * os.sysconf("SC_PAGE_SIZE")


def occupied_bytes(pid: int) -> int | None:
    """Anonymous and shared memory of a process; None: there is no such process, or it is a zombie.

    The proportional set size would share out what processes have in common, but the kernel walks all page tables of
    the server for it, under the lock that its allocations need. SGLang spawns its processes, so they have little in
    common but libraries, and those are files.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))]
    return sum(sizes) * 1024 if sizes else None
