"""The memory of every rank's GPU while a rehearsed server runs: what is taken, what is free, and who holds it. GiB."""

import time
from collections.abc import Mapping
from pathlib import Path

from tui.rehearsal.failures import OutOfMemory
from tui.rehearsal.gpustate import RELEASE_S, Holder, read, start_ticks, write
from tui.rehearsal.launch import Rank
from tui.rehearsal.machine import Settings

_SOON_S = 0.2


class NoRoomError(Exception):
    """An allocation failed. `oom` is what torch says about it."""

    def __init__(self, oom: OutOfMemory) -> None:
        super().__init__(oom.message())
        self.oom = oom


class RankMemory:
    """One rank's view of its GPU. `free_gib` is what the driver tells, so other processes count."""

    def __init__(self, rank: Rank, total_gib: float, free_gib: float) -> None:
        self.rank = rank
        self.total_gib = total_gib
        self.free_gib = free_gib
        self.used_gib = 0.0
        self._graphs_gib = 0.0

    def take(self, gib: float, graphs: bool = False) -> None:
        """Allocate. Raises NoRoomError."""
        if gib > self.free_gib:
            raise NoRoomError(
                OutOfMemory(
                    gpu=self.rank.index,
                    tried_gib=gib,
                    total_gib=self.total_gib,
                    free_gib=self.free_gib,
                    used_gib=self.used_gib,
                    private_gib=self._graphs_gib,
                )
            )
        self.free_gib -= gib
        self.used_gib += gib
        if graphs:
            self._graphs_gib += gib


class Board:
    """All ranks, and the state file that the simulated driver reads. `pids`: scheduler processes by rank index."""

    def __init__(self, settings: Settings, ranks: tuple[Rank, ...]) -> None:
        self._path = Path(settings.state_file) if settings.state_file else None
        machine = settings.machine
        taken = self._taken()
        foreign = settings.plot.foreign_gib
        usable = machine.total_gib - machine.reserved_gib - machine.idle_gib
        self.memories = tuple(
            RankMemory(
                rank,
                machine.total_gib - machine.reserved_gib,
                usable - taken.get(rank.index, 0.0) - foreign.get(rank.index, 0.0),
            )
            for rank in ranks
            if rank.index < machine.gpus
        )
        self.pids: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._told_at = 0.0

    def __getitem__(self, rank: Rank) -> RankMemory:
        return self.memories[rank.index]

    @property
    def least_free_gib(self) -> float:
        """The smallest free memory of all ranks, as SGLang reduces it."""
        return min(memory.free_gib for memory in self.memories)

    def publish(self, soon: bool = False) -> None:
        """Tell the driver, or `soon`: not if it was told just now. A file that cannot be written stops nobody."""
        now = time.time()
        if self._path is None or not self.pids or (soon and now - self._told_at < _SOON_S):
            return
        self._told_at = now
        holders = [
            Holder(
                pid, self._start(pid), scheduler_title(memory.rank), now, {memory.rank.index: round(memory.used_gib, 4)}
            )
            for memory in self.memories
            if (pid := self.pids.get(memory.rank.index)) is not None
        ]
        try:
            write(self._path, holders, now)
        except OSError:
            self._path = None

    def _start(self, pid: int) -> int:
        if pid not in self._starts:
            self._starts[pid] = start_ticks(pid) or 0
        return self._starts[pid]

    def _taken(self) -> Mapping[int, float]:
        """What other processes hold now, by GPU; the memory of those that just died is not back yet."""
        taken: dict[int, float] = {}
        now = time.time()
        for holder in read(self._path) if self._path is not None else ():
            if holder.alive or now - holder.at < RELEASE_S:
                for index, gib in holder.gib.items():
                    taken[index] = taken.get(index, 0.0) + gib
        return taken


def scheduler_title(rank: Rank) -> str:
    """The name that a scheduler process gives itself: the log prefix with underscores."""
    return "sglang::scheduler" + "".join(f"_{name}{number}" for name, number in rank.tags)
