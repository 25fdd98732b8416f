"""The server's process tree as a fact: pids, titles and memory. Reads /proc; sends no signal.

Identity itself lives in `tui.procid` and is offered here too, so that a caller needs one module.
"""

import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tui.facts import ProcessId, ServerProcesses
from tui.procid import (
    ProcessStat,
    alive,
    boot_id,
    command_line,
    descendants,
    identity,
    process_id,
    process_stat,
    process_table,
)

__all__ = ["alive", "environ_value", "process_id", "process_title", "server_members", "server_tree"]

GIB = 1 << 30
_LONGEST_TITLE = 80
_LARGEST_ENVIRON = 4 << 20  # bytes; the kernel allows a few MiB of arguments and environment


def server_tree(
    server: ProcessId, now: float | None = None, visible_uuids: tuple[str, ...] | None = None
) -> ServerProcesses:
    """The server and everything below it. No pids: all of it is gone, or the pid is a stranger's by now.

    `rss_gib` counts what each process has for itself and the largest part that they share, as every SGLang process
    maps the same libraries.
    """
    members = server_members(server)
    memory = [sizes for member in members if (sizes := _resident(member.pid)) is not None]
    rss = sum(resident - shared for resident, shared in memory) + max((shared for _, shared in memory), default=0)
    return ServerProcesses(
        at=time.time() if now is None else now,
        pids=tuple(member.pid for member in members),
        names={str(member.pid): process_title(member.pid) or "?" for member in members},
        visible_uuids=visible_uuids,
        rss_gib=rss / GIB if memory else None,
    )


def server_members(server: ProcessId) -> tuple[ProcessId, ...]:
    """The living processes of a server, itself first, with their identities.

    Below it in the tree, or in the session that it leads: what outlives the main process is no longer its descendant
    but still in its session, and may hold GPU memory.
    """
    if server.boot_id != boot_id():
        return ()
    table = process_table()
    root = table.get(server.pid)
    if root is not None and root.start_ticks != server.start_ticks:
        return ()  # the pid was given to another process
    below = descendants((server.pid,), table) if root is not None else []
    found = {stat.pid: stat for stat in (*([root] if root else []), *below, *_session(server, table))}
    return tuple(identity(stat) for stat in found.values() if not stat.dead)


def process_title(pid: int) -> str | None:
    """How a process calls itself, short and printable: a title such as "sglang::scheduler_TP0", else the program.

    Arguments are left out, as they may hold secrets. None: no such process.
    """
    argv = command_line(pid)
    if not argv:
        stat = process_stat(pid)
        return _printable(stat.name) if stat is not None else None
    return _printable(_short(argv))


def environ_value(pid: int, name: str) -> str | None:
    """A variable of the environment that a process was started with.

    None: not set, no such process, or it is another user's. "" is an empty value.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read(_LARGEST_ENVIRON)
    except OSError:
        return None
    wanted = name.encode() + b"="
    for entry in raw.split(b"\0"):
        if entry.startswith(wanted):
            return entry[len(wanted) :].decode(errors="replace")
    return None


def _session(server: ProcessId, table: Mapping[int, ProcessStat]) -> list[ProcessStat]:
    """A session's id is its leader's pid, and is not given out again while the session has a member."""
    return [stat for stat in table.values() if stat.session == server.pid and stat.start_ticks >= server.start_ticks]


def _short(argv: tuple[str, ...]) -> str:
    if argv[0].startswith("sglang") or len(argv) == 1:
        return argv[0].rsplit("/", 1)[-1] if argv[0].startswith("/") else argv[0]
    program = argv[0].rsplit("/", 1)[-1]
    if not program.startswith("python"):
        return program
    for position, argument in enumerate(argv[1:], 1):
        if argument == "-c":
            code = argv[position + 1] if position + 1 < len(argv) else ""
            return f"{program} resource_tracker" if "resource_tracker" in code else f"{program} -c"
        if argument == "-m" and position + 1 < len(argv):
            return f"{program} -m {argv[position + 1]}"
        if not argument.startswith("-"):
            return f"{program} {argument.rsplit('/', 1)[-1]}"
    return program


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:_LONGEST_TITLE])


def _resident(pid: int) -> tuple[int, int] | None:
    """Bytes in memory, and the part of them that is shared (files, shared memory)."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return int(fields[1]) * _page_size(), int(fields[2]) * _page_size()
    except (OSError, ValueError, IndexError):
        return None


@cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")
