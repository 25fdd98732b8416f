"""Watching one server from its start until nothing of it is left, and writing down what came of it."""

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.factlines import dump_fact
from tui.facts import Exited, Fact, Json, Launched, ProcessId, Signalled, StateChange
from tui.files import StoreError, append_lines, write_json
from tui.procid import alive, identity, process_id, process_stat
from tui.runs.store import process_json
from tui.server import leftovers, wire
from tui.server.lastlines import last_lines
from tui.server.mailbox import Mailbox
from tui.server.signals import NotPermittedError, kill_all, server_tree, terminate

DEFAULT_GRACE_S = 30.0

_TICK_S = 1.0
_SCAN_S = 5.0
_KILL_LIMIT_S = 10.0
_LOOK_AGAIN_S = 0.2
ORPHAN_GRACE_S = 8.0  # after a crash the ranks end by themselves; SGLang takes 5 s to write about it
_GIVE_UP_WRITING_S = 3600.0
_LONGEST_GRACE_S = 86_400.0

Say = Callable[[str], None]


@dataclass(slots=True)
class Stop:
    """A stop that was asked for; at `deadline` (Unix seconds) patience ends."""

    since: float
    deadline: float
    why: str


@dataclass(slots=True)
class End:
    """The end of the main process, as exit.json tells it."""

    at: float
    code: int | None
    signal: str | None
    lines: list[str]
    survivors: list[ProcessId]


class Watch:
    """One server and its keeper, this process. Every descendant of the keeper is the server's."""

    def __init__(self, folder: Path, plan: dict[str, Any], say: Say) -> None:
        """Prepare everything that can fail, before a server exists. Raises StoreError."""
        me = process_id(os.getpid())
        if me is None:
            raise StoreError("The keeper cannot read /proc, without which it cannot tell processes apart.")
        self._folder, self._plan, self._say, self._me = folder, plan, say, me
        self._server: ProcessId | None = None
        self._stop: Stop | None = None
        self._end: End | None = None
        self._end_saved = False
        self._killed: set[ProcessId] = set()
        self._known: list[ProcessId] = []
        self._files: set[str] = set()
        self._scanned_at = 0.0
        self._unwritten: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._mailbox: Mailbox | None = None
        self._write_identity()
        try:
            self._mailbox = Mailbox(wire.listen(folder), self._selector, self._answer)
        except OSError as error:
            say(f"no control socket ({error}): stopping works by signals only")

    def start(self, spawn: Callable[[], int]) -> None:
        """Start the server. Raises OSError when it cannot run, StoreError when its identity cannot be written."""
        stat = process_stat(spawn())  # found even if it has ended already: only this process can reap it
        if stat is None:
            raise StoreError("The server cannot be seen in /proc.")
        self._server = identity(stat)
        self._known = [self._server]
        try:
            self._write_identity()
        except StoreError:
            kill_all(self._tree, _KILL_LIMIT_S)
            raise
        self._note(self._launched())

    def run(self, wake: socket.socket) -> None:
        """Until the server and everything that it started is gone. `wake` gets the number of every signal."""
        self._selector.register(wake, selectors.EVENT_READ)
        while not self._finished():
            for key, _ in self._selector.select(self._patience_s()):
                if key.fileobj is wake:
                    self._take_signals(wake)
                elif self._mailbox is not None:
                    self._mailbox.handle(key.fileobj)
            if self._mailbox is not None:
                self._mailbox.hang_up_late()
            self._reap()
            self._escalate()
            self._scan()
            self._flush()
        with contextlib.suppress(OSError):
            os.unlink(self._folder / wire.SOCKET)

    def stop(self, grace_s: float, why: str) -> None:
        """SIGTERM now, once; SIGKILL after `grace_s`. Asked again, the new time counts."""
        now = time.time()
        if self._stop is not None:
            self._stop.deadline = now + grace_s
            return
        self._scan(force=True)  # what it holds can only be seen while it lives
        self._stop = Stop(since=now, deadline=now + grace_s, why=why)
        self._note(StateChange(at=now, state="stopping", reason=f"{why}; SIGKILL after {grace_s:g} s"))
        if grace_s <= 0:
            return
        try:
            pids = tuple(process.pid for process in terminate(self._tree()))
            self._note(Signalled(at=now, signal="SIGTERM", pids=pids, why=why))
        except NotPermittedError as error:
            self._say(str(error))

    def _take_signals(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in wake.recv(4096):
                self.stop(DEFAULT_GRACE_S, "the keeper was told to end")

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._server is not None and pid == self._server.pid and self._end is None:
                self._ended(os.waitstatus_to_exitcode(status))

    def _ended(self, status: int) -> None:
        code, name = (status, None) if status >= 0 else (None, signal.Signals(-status).name)
        lines = last_lines(self._folder / "server.log", secrets=self._plan["secrets"])
        self._end = End(at=time.time(), code=code, signal=name, lines=lines, survivors=self._tree())
        self._note(Exited(at=self._end.at, code=code, signal=name, requested=self._stop is not None))

    def _escalate(self) -> None:
        now, stop = time.time(), self._stop
        if stop is not None and now >= stop.deadline:
            waited = "" if stop.deadline == stop.since else f"; still there after {now - stop.since:.0f} s"
            self._kill(stop.why + waited)
        elif self._orphans_are_due(now):
            self._kill("left behind by the server's end")

    def _orphans_are_due(self, now: float) -> bool:
        """A launcher script that ends well keeps the server it left running; a fallen server keeps no ranks."""
        end = self._end
        if end is None or now < end.at + self._plan["orphan_grace_s"]:
            return False
        return self._stop is not None or end.signal is not None or end.code != 0

    def _kill(self, why: str) -> None:
        """SIGKILL to what is there now; called again until nothing is."""
        signalled, _ = kill_all(lambda: [process for process in self._tree() if process not in self._killed], 0.0)
        if signalled:
            self._killed.update(signalled)
            pids = tuple(process.pid for process in signalled)
            self._note(Signalled(at=time.time(), signal="SIGKILL", pids=pids, why=why))

    def _finished(self) -> bool:
        if self._end is None or self._tree():
            return False
        written = (self._end_saved and not self._unwritten) or not self._folder.is_dir()
        return written or time.time() > self._end.at + _GIVE_UP_WRITING_S

    def _patience_s(self) -> float:
        if self._end is not None:
            return _LOOK_AGAIN_S if time.time() < self._end.at + 2 * ORPHAN_GRACE_S else _TICK_S
        if self._stop is None:
            return _TICK_S
        left = self._stop.deadline - time.time()
        return min(max(left, 0.01), _TICK_S) if left > -_KILL_LIMIT_S else _TICK_S

    def _scan(self, force: bool = False) -> None:
        """Know the tree and the files it holds, so that they can be named when nobody is left to ask."""
        now = time.monotonic()
        if self._end is not None or (now - self._scanned_at < _SCAN_S and not force):
            return
        self._scanned_at = now
        tree = self._tree()
        files = self._files | leftovers.held_files(process.pid for process in tree)
        if tree and (tree != self._known or files != self._files):
            self._known, self._files = tree, files
            with contextlib.suppress(StoreError):
                self._write_identity()

    def _flush(self) -> None:
        """Write what is not written yet; on a full disk it is tried again with every tick."""
        try:
            if self._end is not None and not self._end_saved:
                write_json(self._folder / "exit.json", self._exit_json())
                self._end_saved = True
        except StoreError as error:
            self._say(str(error))
        try:
            if self._unwritten:
                append_lines(self._folder / "control.jsonl", self._unwritten)
                self._unwritten = []
        except StoreError as error:
            self._say(str(error))

    def _note(self, fact: Fact) -> None:
        self._unwritten.append(dump_fact(fact))
        self._flush()

    def _exit_json(self) -> dict[str, Json] | None:
        end = self._end
        if end is None:
            return None
        return {
            "code": end.code,
            "signal": end.signal,
            "at": end.at,
            "requested": self._stop is not None,
            "last_lines": end.lines,
            "survivors": [process_json(process) for process in end.survivors],
        }

    def _write_identity(self) -> None:
        write_json(self._folder / "keeper.json", {"keeper": process_json(self._me), **self._processes()})

    def _processes(self) -> dict[str, Json]:
        return {
            "server": None if self._server is None else process_json(self._server),
            "tree": [process_json(process) for process in self._known],
            "files": sorted(self._files),
        }

    def _launched(self) -> Launched:
        told = self._plan["launched"]
        return Launched(
            at=time.time(),
            run=self._folder.name,
            profile=told["profile"],
            command=tuple(told["argv"]),
            knobs=told["knobs"],
            env=told["env"],
            server=self._server,
            keeper=self._me,
            url=told["url"],
            sglang_version=told["sglang_version"],
            rehearsal=told["rehearsal"],
        )

    def _tree(self) -> list[ProcessId]:
        return server_tree(self._server, self._me, self._known)

    def _answer(self, request: dict[str, Json]) -> dict[str, Json]:
        what, why = request["do"], str(request.get("why") or "asked for")[:200]
        if what == "stop":
            self.stop(min(max(float(request["grace_s"]), 0.0), _LONGEST_GRACE_S), why)
        elif what == "kill":
            self.stop(0.0, why)
        elif what != "status":
            raise ValueError(f"unknown: {str(what)[:40]}")
        stop = self._stop
        return {
            **self._processes(),
            "tree": [process_json(process) for process in self._tree()],
            "server_alive": alive(self._server),
            "stopping": None if stop is None else {"since": stop.since, "deadline": stop.deadline, "why": stop.why},
            "exit": self._exit_json(),
        }
