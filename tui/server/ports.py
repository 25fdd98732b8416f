"""Who listens on a port. SGLang binds its port last, after minutes of loading, so it is asked before and after."""

import errno
import os
import socket
from collections.abc import Callable, Iterable

from tui.facts import ProcessId
from tui.procid import command_line, process_id
from tui.server.lastlines import clean_line


def is_free(host: str, port: int) -> bool:
    """Whether a server could bind this address now. A host that is not this machine's counts as free."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return True
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            # As uvicorn does, so that connections in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def listeners(port: int) -> list[ProcessId]:
    """The processes that listen on a TCP port, as far as this user can see them."""
    inodes = _listening_inodes(port)
    return [] if not inodes else _holders(inodes)


def listened_by(port: int, tree: Callable[[], Iterable[ProcessId]]) -> bool | None:
    """Whether a process that `tree` tells listens on a TCP port; None when nobody does, or it cannot be seen."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    if any(_holds(process.pid, links) for process in tree()):
        return True
    return False if _holders(inodes) else None


def holder(host: str, port: int) -> str | None:
    """Who keeps this address from being bound, in words; None when it is free."""
    if is_free(host, port):
        return None
    found = listeners(port)
    return " and ".join(map(describe, found)) if found else "a process that this user cannot see"


def describe(process: ProcessId) -> str:
    """A process for the eye: pid and what runs, without secrets and control characters."""
    words = " ".join(command_line(process.pid)) or "name unknown"
    return f"process {process.pid} ({clean_line(words)[:80]})"


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        listening = "0A"
        found |= {row[9] for row in rows if row[3] == listening and int(row[1].rpartition(":")[2], 16) == port}
    return found


def _holders(inodes: set[str]) -> list[ProcessId]:
    links = {f"socket:[{inode}]" for inode in inodes}
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or not _holds(int(name), links):
            continue
        process = process_id(int(name))
        if process is not None:
            found.append(process)
    return found


def _holds(pid: int, links: set[str]) -> bool:
    try:
        handles = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for handle in handles:
        try:
            if os.readlink(f"/proc/{pid}/fd/{handle}") in links:
                return True
        except OSError:
            continue
    return False
