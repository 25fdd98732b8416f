"""The simulated GPUs as a source of facts, in place of NVML."""

from collections.abc import Mapping
from pathlib import Path

from tui.facts import GpuProcess, GpuReading, GpuSample
from tui.rehearsal.gpustate import RELEASE_S, STALE_S, Holder, read
from tui.rehearsal.machine import Machine

# No process can have it: the kernel's pids end at 4194304.
FOREIGN_PID = 4_999_999
FOREIGN_NAME = "python3 train.py"
_IDLE_W, _BUSY_W = 32.0, 410.0


def gpu_uuid(index: int) -> str:
    """The UUID of a simulated GPU."""
    return f"GPU-00000000-7265-6865-6172-{index:012x}"


class RehearsalGpus:
    """Samples what the servers of a rehearsal wrote into `state_file`; without one the machine is idle.

    `foreign_gib`: what another program holds, by GPU index (a scenario's).
    """

    def __init__(
        self, state_file: Path, machine: Machine | None = None, foreign_gib: Mapping[int, float] | None = None
    ) -> None:
        self._path = state_file
        self._machine = machine or Machine()
        self._foreign = dict(foreign_gib or {})
        self._died_at: dict[tuple[int, int], float] = {}

    def sample(self, now: float) -> GpuSample:
        """All GPUs at `now`, Unix seconds. A dead process's memory is released a second after it was seen dead."""
        alive: list[Holder] = []
        leaving: list[Holder] = []
        for holder in read(self._path):
            if holder.alive:
                alive.append(holder)
            elif self._still_held(holder, now):
                leaving.append(holder)
        gpus = tuple(self._reading(index, alive, leaving) for index in range(self._machine.gpus))
        return GpuSample(at=now, source="rehearsal", gpus=gpus, driver="rehearsal")

    def _still_held(self, holder: Holder, now: float) -> bool:
        # A living server writes every second, so an old entry is of one that died before anybody looked.
        first_seen = now if now - holder.at < STALE_S else holder.at
        return now - self._died_at.setdefault((holder.pid, holder.start_ticks), first_seen) < RELEASE_S

    def _reading(self, index: int, alive: list[Holder], leaving: list[Holder]) -> GpuReading:
        machine = self._machine
        processes = [
            GpuProcess(pid=holder.pid, used_gib=holder.gib[index], name=holder.name)
            for holder in alive
            if index in holder.gib
        ]
        foreign = self._foreign.get(index)
        if foreign is not None:
            processes.append(GpuProcess(pid=FOREIGN_PID, used_gib=foreign, name=FOREIGN_NAME))
        held = sum(process.used_gib or 0.0 for process in processes)
        held += sum(holder.gib.get(index, 0.0) for holder in leaving)
        used = min(held + machine.idle_gib, machine.total_gib - machine.reserved_gib)
        busy = bool(processes)
        return GpuReading(
            index=index,
            uuid=gpu_uuid(index),
            name=machine.name,
            total_gib=machine.total_gib,
            used_gib=used,
            free_gib=machine.total_gib - machine.reserved_gib - used,
            reserved_gib=machine.reserved_gib,
            compute_capability="12.0",
            util_percent=96.0 if busy else 0.0,
            power_w=_BUSY_W if busy else _IDLE_W,
            temperature_c=61.0 if busy else 34.0,
            processes=tuple(processes),
        )
