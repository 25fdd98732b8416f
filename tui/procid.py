"""Which process is meant, for life: a pid alone may be a stranger's tomorrow. Reads /proc; sends no signal."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tui.facts import ProcessId
from tui.frozen import frozen

_DEAD = "ZXx"  # zombie or being removed: it runs no code and holds no memory


@frozen(kw_only=False)
class ProcessStat:
    """One line of /proc/<pid>/stat. `start_ticks` counts clock ticks since boot; `name` is cut to 15 characters."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int

    @property
    def dead(self) -> bool:
        return self.state in _DEAD


@cache
def boot_id() -> str:
    """This boot's id; "" where /proc does not tell. Processes of an earlier boot are gone whatever their pid."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_stat(pid: int) -> ProcessStat | None:
    """What the kernel says of a process; None when there is none. Zombies are told."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            line = file.read(4096).decode(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold spaces and parentheses itself, so the last one closes it.
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    return ProcessStat(
        pid=pid,
        name=head.partition("(")[2],
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def process_id(pid: int) -> ProcessId | None:
    """The identity of a running process. None: no such process, or it is a zombie."""
    stat = process_stat(pid)
    return None if stat is None or stat.dead else identity(stat)


def identity(stat: ProcessStat) -> ProcessId:
    """The identity of the process that a stat line is of."""
    return ProcessId(pid=stat.pid, start_ticks=stat.start_ticks, boot_id=boot_id())


def alive(process: ProcessId | None) -> bool:
    """Whether this very process still runs. A recycled pid, another boot or a zombie is not it."""
    return process is not None and process_id(process.pid) == process


def process_table() -> dict[int, ProcessStat]:
    """Every process of the machine that can be seen from here, zombies included, by pid."""
    stats = (process_stat(int(name)) for name in os.listdir("/proc") if name.isascii() and name.isdigit())
    return {stat.pid: stat for stat in stats if stat is not None}


def descendants(roots: Iterable[int], table: Mapping[int, ProcessStat]) -> list[ProcessStat]:
    """Children, their children and so on of `roots`, nearest first, without the roots themselves."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat)
    todo, seen = list(roots), set(roots)
    found: list[ProcessStat] = []
    while todo:
        for stat in children.get(todo.pop(0), ()):
            if stat.pid not in seen:
                seen.add(stat.pid)
                found.append(stat)
                todo.append(stat.pid)
    return found


def command_line(pid: int) -> tuple[str, ...]:
    """The arguments of a process, or its title where it set one; () when unknown. May hold secrets."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0 ").split(b"\0")) if raw.strip(b"\0 ") else ()
