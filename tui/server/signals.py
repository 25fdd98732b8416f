"""Signals to exactly the processes that are meant, and the tree of processes that one server is."""

import os
import signal
import time
from collections.abc import Callable, Iterable

from tui.errors import SpecdeckError
from tui.facts import ProcessId
from tui.procid import alive, descendants, identity, process_stat, process_table

_LOOK_AGAIN_S = 0.05


class NotPermittedError(SpecdeckError):
    """A process belongs to another user."""


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone, or its pid now belongs to another. Raises NotPermittedError."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:
        return _send_by_pid(process, number)  # a kernel without pidfd
    try:
        # The handle keeps meaning the process it was opened on, so a check after opening leaves no gap.
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise _not_permitted(process) from error
    finally:
        os.close(handle)
    return True


def server_tree(
    server: ProcessId | None, keeper: ProcessId | None = None, known: Iterable[ProcessId] = ()
) -> list[ProcessId]:
    """Every running process of one server, its main process first.

    It is the server, all its descendants, whatever the keeper (a subreaper, which starts nothing else) has inherited,
    and those of `known`, an earlier answer, that still run. A process that only has a known number is none of them.
    """
    table = process_table()
    here = {pid: identity(stat) for pid, stat in table.items() if not stat.dead}
    roots = [process for process in (server, *known) if process is not None and here.get(process.pid) == process]
    parents = [process.pid for process in roots]
    if keeper is not None and here.get(keeper.pid) == keeper:
        parents.append(keeper.pid)
    found = dict.fromkeys(roots)
    found.update((here[stat.pid], None) for stat in descendants(parents, table) if stat.pid in here)
    outside = {os.getpid(), 1} | ({keeper.pid} if keeper is not None else set())
    return [process for process in found if process.pid not in outside]


def tops(tree: Iterable[ProcessId]) -> list[ProcessId]:
    """Those of a tree that no other of it has started: the main process, or what it left running."""
    tree = list(tree)
    pids = {process.pid for process in tree}
    stats = ((process, process_stat(process.pid)) for process in tree)
    return [process for process, stat in stats if stat is not None and stat.parent not in pids]


def terminate(tree: Iterable[ProcessId]) -> list[ProcessId]:
    """SIGTERM to the tops of a tree, which end the rest; returns those signalled. Raises NotPermittedError."""
    return [process for process in tops(tree) if send_signal(process, signal.SIGTERM)]


def kill_all(tree: Callable[[], list[ProcessId]], limit_s: float) -> tuple[list[ProcessId], list[ProcessId]]:
    """SIGKILL what `tree` tells, again while it tells more (a process may have forked meanwhile).

    Returns those signalled, and those that still run after `limit_s`: hung in the kernel, or another user's.
    """
    signalled: dict[ProcessId, None] = {}
    until = time.monotonic() + limit_s
    while True:
        left = tree()
        for process in left:
            try:
                if process not in signalled and send_signal(process, signal.SIGKILL):
                    signalled[process] = None
            except NotPermittedError:
                continue
        if not left or time.monotonic() >= until:
            return list(signalled), left
        time.sleep(_LOOK_AGAIN_S)


def _send_by_pid(process: ProcessId, number: signal.Signals) -> bool:
    if not alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise _not_permitted(process) from error
    return True


def _not_permitted(process: ProcessId) -> NotPermittedError:
    return NotPermittedError(f"Process {process.pid} belongs to another user: stop it as that user.")
