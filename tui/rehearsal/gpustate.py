"""The file that says what every process holds on the simulated GPUs: written by servers, read as a driver is asked.

One JSON object, {"processes": [{pid, start_ticks, name, at, gpus: {index: GiB}}]}, replaced as a whole. Several servers
may share it; a lock beside it keeps them from losing each other's entries.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tui.procid import process_stat

# The driver takes a moment to give back what a dead process held.
RELEASE_S = 1.0
# A living server rewrites its entries every second.
STALE_S = 5.0


@dataclass(frozen=True, slots=True)
class Holder:
    """A process and what it holds. `at`: Unix seconds of the last write. `gib`: by GPU index."""

    pid: int
    start_ticks: int
    name: str
    at: float
    gib: Mapping[int, float]

    @property
    def alive(self) -> bool:
        """Whether it is this very process, not a zombie and not a stranger with its pid."""
        stat = process_stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and not stat.dead


def read(path: Path) -> tuple[Holder, ...]:
    """Every entry, also of processes that are gone; () when there is no file or it cannot be read."""
    try:
        data = json.loads(path.read_bytes())
        return tuple(
            Holder(
                pid=int(entry["pid"]),
                start_ticks=int(entry["start_ticks"]),
                name=str(entry["name"]),
                at=float(entry["at"]),
                gib={int(index): float(gib) for index, gib in entry["gpus"].items()},
            )
            for entry in data["processes"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def write(path: Path, holders: Iterable[Holder], now: float) -> None:
    """Put these entries in place of the same processes' old ones, and forget the long dead. Raises OSError."""
    mine = list(holders)
    pids = {holder.pid for holder in mine}
    with _locked(path):
        others = [h for h in read(path) if h.pid not in pids and (h.alive or now - h.at < STALE_S)]
        entries = [
            {"pid": h.pid, "start_ticks": h.start_ticks, "name": h.name, "at": round(h.at, 3), "gpus": dict(h.gib)}
            for h in (*others, *mine)
        ]
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"processes": entries}))
        os.replace(temporary, path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
