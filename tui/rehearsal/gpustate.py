"""The file that says what every process holds on the simulated GPUs: written by servers, read as a driver is asked.

One JSON object, {"processes": [{pid, start_ticks, name, at, gpus: {index: GiB}}]}, replaced as a whole. Several servers
may share it; a lock beside it keeps them from losing each other's entries.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tui.frozen import frozen

# The driver takes a moment to give back what a dead process held.
RELEASE_S = 1.0
# A living server rewrites its entries every second.
STALE_S = 5.0


@frozen(kw_only=False)
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
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/<pid>/stat; None for no process and for a zombie.

    Here and not by `tui.procid`, whose import would double the time that a rehearsal server takes to start.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X", b"x") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


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
