"""Stopping a server in steps that can be watched, and proving afterwards that nothing of it is left."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator

from tui.factlines import dump_fact, read_facts
from tui.facts import Exited, Fact, ProcessId, Signalled, StateChange
from tui.files import StoreError, append_lines, write_json
from tui.frozen import frozen
from tui.procid import alive
from tui.runs.store import Run, load_run, process_from_json
from tui.server import leftovers, ports, wire
from tui.server.lastlines import last_lines
from tui.server.signals import kill_all, server_tree, terminate
from tui.server.watch import ORPHAN_GRACE_S

DEFAULT_GRACE_S = 30.0
MEMORY_LIMIT_S = 30.0

_POLL_S = 0.25
_TELL_S = 1.0
_GONE_LIMIT_S = 15.0
_EXIT_NOTE_LIMIT_S = 3.0

MemoryBack = Callable[[], str | None]
"""Tells who still holds GPU memory, in a sentence; None when it is as it was before the server."""


@frozen(kw_only=False)
class Step:
    """One visible step. `kind`: "note", "waiting" (with `left_s` until SIGKILL), "problem" or "done".

    A sequence ends with "done" (`ok` tells whether everything is as it should be); `run` is the run that it led to.
    """

    kind: str
    text: str
    left_s: float | None = None
    ok: bool = True
    run: Run | None = None


def stop(
    run: Run, grace_s: float = DEFAULT_GRACE_S, why: str = "asked for", memory_back: MemoryBack | None = None
) -> Iterator[Step]:
    """SIGTERM, a countdown, SIGKILL to what is left, and the proof. Each step is yielded as it happens.

    It blocks between steps, so it belongs in a thread. Closing the iterator stops telling; a keeper that was asked goes
    on with it. `kill` from elsewhere ends the countdown. Raises NotPermittedError for another user's server.
    """
    run = _now(run)
    known = dict.fromkeys(_tree(run, run.tree))
    files = set(run.files) | leftovers.held_files(process.pid for process in known)
    if known or (run.exited is None and alive(run.keeper)):  # a keeper that has not told its server yet is asked too
        yield from _end(run, known, grace_s, why)
    elif run.exited is None:
        yield Step("note", "The server is not running any more.")
    yield from verify(run, known, files, memory_back)


def kill(run: Run, why: str = "kill asked for", memory_back: MemoryBack | None = None) -> Iterator[Step]:
    """SIGKILL at once to the whole tree, and the proof, in steps as of `stop`."""
    return stop(run, 0.0, why, memory_back)


def verify(
    run: Run, known: Iterable[ProcessId], files: Iterable[str] = (), memory_back: MemoryBack | None = None
) -> Iterator[Step]:
    """Whether every process is gone, the port free, the memory back; removes leftovers. Ends with the "done" step."""
    known = list(known)
    problems = [f"{ports.describe(process)} still runs" for process in known if alive(process)]
    if run.port is not None and (holder := _held_after(run.host or "", run.port)):
        problems.append(f"port {run.port} is held by {holder}")
    if memory_back is not None:
        yield Step("note", "Waiting for the GPU memory to come back.")
        held = _wait_memory(memory_back)
        if held:
            problems.append(held)
    if not any(map(alive, known)):
        left = leftovers.leftovers({*files, *run.files}, [process.pid for process in (*known, *run.tree)])
        kept = leftovers.remove(left)
        if len(left) > len(kept):
            yield Step("note", f"Removed {len(left) - len(kept)} leftover files of the server.")
        problems += [f"{path} cannot be removed" for path in kept]
    for problem in problems:
        yield Step("problem", problem[0].upper() + problem[1:] + ".", ok=False)
    text = "Stopped, but not all is clean." if problems else "Stopped: its processes are gone, its port is free."
    yield Step("done", text, ok=not problems, run=_now(run))


def _end(run: Run, known: dict[ProcessId, None], grace_s: float, why: str) -> Iterator[Step]:
    kept = False
    if alive(run.keeper):
        try:
            request = {"do": "stop", "grace_s": grace_s, "why": why} if grace_s > 0 else {"do": "kill", "why": why}
            kept = bool(wire.ask(run.path, request).get("ok"))
        except wire.KeeperUnreachableError as error:
            gone = not run.path.is_dir()
            why_not = f"The run folder {run.path} is gone and its keeper cannot be asked." if gone else str(error)
            yield Step("note", f"{why_not} The server is stopped directly.")
    elif not run.adopted:
        yield Step("note", "The keeper is gone; the server is stopped directly.")
    direct = None if kept else _Direct(run, why)
    if direct is not None:
        direct.begin(known, grace_s)
    if grace_s > 0:
        text = f"SIGTERM sent: requests in flight are finished, SIGKILL in {grace_s:.0f} s."
        yield Step("waiting", text, left_s=grace_s)
    began = time.time()
    told = yield from _count_down(run, known, grace_s, direct, why)
    killed = 0 if told else _killed_since(run, began)
    if killed:
        yield Step("note", f"SIGKILL to {_count(killed)}.")
    if direct is not None:
        direct.write_end(any(map(alive, known)))
    elif not any(map(alive, known)):
        _await_exit_note(run)


def _count_down(
    run: Run, known: dict[ProcessId, None], grace_s: float, direct: "_Direct | None", why: str
) -> Generator[Step, None, bool]:
    """Until all are gone, or hang even after SIGKILL; returns whether SIGKILL was told."""
    began = told = time.monotonic()
    deadline, killed, had_main = began + grace_s, False, True  # it may be gone already: then its children go soon
    while True:
        known.update(dict.fromkeys(_tree(run, known)))
        left = [process for process in known if alive(process)]
        if not left:
            return killed
        now = time.monotonic()
        if had_main and not alive(run.server):  # what it did not take with it will hardly end by itself
            had_main, deadline = False, min(deadline, now + ORPHAN_GRACE_S)
        if now >= deadline and not killed:
            killed = True
            yield Step("note", f"SIGKILL to {_count(len(left))}.")
        if killed and (direct is not None or not alive(run.keeper)):
            (direct or _Direct(run, why)).kill(lambda: [process for process in known if alive(process)])
        if now >= deadline + _GONE_LIMIT_S:
            return killed
        if not killed and now - told >= _TELL_S:
            told = now
            yield Step(
                "waiting", f"{_count(len(left))} left, SIGKILL in {deadline - now:.0f} s.", left_s=deadline - now
            )
        time.sleep(_POLL_S)


class _Direct:
    """Stopping without a keeper: this process sends the signals and writes what the keeper would have written."""

    def __init__(self, run: Run, why: str) -> None:
        self._run = run
        self._why = why

    def begin(self, tree: Iterable[ProcessId], grace_s: float) -> None:
        if grace_s <= 0:
            return
        now = time.time()
        pids = tuple(process.pid for process in terminate(tree))
        stopping = StateChange(at=now, state="stopping", reason=f"{self._why}; SIGKILL after {grace_s:g} s")
        self._note(stopping, Signalled(at=now, signal="SIGTERM", pids=pids, why=self._why))

    def kill(self, tree: Callable[[], list[ProcessId]]) -> None:
        signalled, _ = kill_all(tree, 1.0)
        if signalled:
            pids = tuple(process.pid for process in signalled)
            self._note(Signalled(at=time.time(), signal="SIGKILL", pids=pids, why=self._why))

    def write_end(self, survived: bool) -> None:
        if survived or self._run.exited is not None:
            return
        at = time.time()
        self._note(Exited(at=at, code=None, requested=True))
        end = {"code": None, "signal": None, "at": at, "requested": True, "last_lines": last_lines(self._run.log)}
        with contextlib.suppress(StoreError):
            write_json(self._run.path / "exit.json", end)

    def _note(self, *facts: Fact) -> None:
        with contextlib.suppress(StoreError):  # a full disk must not keep a server from being stopped
            append_lines(self._run.control, [dump_fact(fact) for fact in facts])


def _now(run: Run) -> Run:
    """The run as its folder tells it now; as it was known where the folder is gone or broken by now."""
    found = load_run(run.path)
    return run if found.damaged is not None and run.damaged is None else found


def _tree(run: Run, known: Iterable[ProcessId]) -> list[ProcessId]:
    """What runs of it, by the keeper's word too: it knows some that cannot be told by their parents."""
    told: list[ProcessId] = []
    with contextlib.suppress(wire.KeeperUnreachableError, KeyError, TypeError, ValueError):
        if alive(run.keeper):
            answer = wire.ask(run.path, {"do": "status"}, timeout_s=2.0)
            told = [process for process in map(process_from_json, answer["tree"]) if process is not None]
    return server_tree(run.server, run.keeper, [*known, *told])


def _await_exit_note(run: Run) -> None:
    until = time.monotonic() + _EXIT_NOTE_LIMIT_S
    while not (run.path / "exit.json").exists() and alive(run.keeper) and time.monotonic() < until:
        time.sleep(_POLL_S)


def _held_after(host: str, port: int) -> str | None:
    """Who holds the port, given the kernel a moment to let go of it."""
    for _ in range(8):
        held = ports.holder(host, port)
        if held is None:
            return None
        time.sleep(_POLL_S)
    return held


def _wait_memory(memory_back: MemoryBack) -> str | None:
    until = time.monotonic() + MEMORY_LIMIT_S
    while (held := memory_back()) is not None and time.monotonic() < until:
        time.sleep(_POLL_S * 2)
    return held


def _killed_since(run: Run, at: float) -> int:
    """How many processes the keeper has sent SIGKILL, as it wrote down."""
    try:
        facts = list(read_facts(run.control.read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError):
        return 0
    return sum(len(f.pids) for f in facts if isinstance(f, Signalled) and f.signal == "SIGKILL" and f.at >= at)


def _count(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
