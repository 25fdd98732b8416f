"""One target, looked at: its log, its keeper's journal, its processes, its endpoints and the machine's memory.

Everything here blocks, and needs no event loop: `status` looks once and is done.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tui.factlines import FactLineError, load_fact
from tui.facts import Endpoint, Exited, Fact, GpuSample, Launched, ServerReady, StateChange
from tui.feed.logreading import LogReading
from tui.feed.place import Place
from tui.feed.targets import Target
from tui.procid import alive
from tui.runs.store import load_run
from tui.server.control import mark_ready, port_is_ours
from tui.session import Session
from tui.snapshot import Snapshot
from tui.sources.endpoints import EndpointSource
from tui.sources.logfile import LogFollower
from tui.sources.nvml_visible import visible_uuids
from tui.sources.proctree import environ_value, server_tree

PORT_S = 10.0  # how often a ready server's port is looked at again


def look(target: Target, place: Place) -> Snapshot:
    """One look at everything there is to know of a target."""
    session, looking = Session(), Looking(target, place)
    for facts in looking.everything():
        session.extend(facts)
    return session.snapshot(time.time())


class Looking:
    """The facts of one target, as they are now. A source that fails is a fact, never an exception."""

    def __init__(self, target: Target, place: Place) -> None:
        self.target = target
        self._place = place
        self._pids: tuple[int, ...] = ()
        self._ready = False
        self._ended = False
        self._stopping = False
        self._answered = False
        self._marked = False
        self._port_at = 0.0
        self._visible: tuple[str, ...] | None = None
        self._sample: GpuSample | None = None
        self._endpoints = EndpointSource(target.url, target.api_key) if target.url else None
        self._journal = LogFollower(target.control) if target.control is not None else None

    def everything(self) -> Iterator[Sequence[Fact]]:
        """One look at everything, in the order in which it came about. Files and connections are closed after it."""
        try:
            begun, later = self._begun()
            yield begun
            if self.target.log is not None:
                log = LogReading(self.target.log)
                facts = log.read_all()
                log.close()
                self._noticed(facts)
                yield facts
            yield later
            for poll in (self._ask, self._machine):
                yield poll(time.time())
        finally:
            self._close()

    def _begun(self) -> tuple[list[Fact], list[Fact]]:
        """What comes first of all, the launch, and what the journal tells after it. That waits for the log to be read:
        ready, then the exit, as it was."""
        told = self._read_journal(self._journal) if self._journal is not None else []
        launched = sum(isinstance(fact, Launched) for fact in told[:1])
        return [*self.target.facts, *told[:launched]], told[launched:]

    def _close(self) -> None:
        if self._endpoints is not None:
            self._endpoints.close()
        if self._journal is not None:
            self._journal.close()

    def _read_journal(self, journal: LogFollower) -> list[Fact]:
        facts: list[Fact] = []
        more = True
        while more:
            chunk = journal.poll()
            more = chunk.more
            for line in chunk.lines:
                with contextlib.suppress(FactLineError):  # cut when the disk was full; the lines after it hold
                    fact = load_fact(line.text)
                    if fact is not None:
                        facts.append(fact)
        self._noticed(facts)
        return facts

    def _noticed(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, ServerReady):
                self._ready = True
            elif isinstance(fact, StateChange) and fact.state == "stopping":
                self._stopping = True
            elif isinstance(fact, Exited):
                self._ended = True

    def _processes(self, now: float) -> Sequence[Fact]:
        server = self.target.server
        if server is None:
            return ()
        if self._visible is None and not self.target.host and self._sample is not None:
            self._visible = visible_uuids(environ_value(server.pid, "CUDA_VISIBLE_DEVICES"), self._sample.gpus)
        keeper = self.target.run.keeper if self.target.run is not None else None
        kept = alive(keeper)
        fact = replace(server_tree(server, now, self._visible), keeper_gone=keeper is not None and not kept)
        self._pids = fact.pids
        if not fact.pids and not self._ended and not kept and not alive(server):
            self._ended = True
            return (fact, self._end(now))
        return (fact,)

    def _end(self, now: float) -> Exited:
        """How it ended, where nobody is left to write it into the journal."""
        run = self.target.run
        told = load_run(run.path).exited if run is not None else None
        return told or Exited(at=now, code=None, requested=self._stopping)

    def _machine(self, now: float) -> Sequence[Fact]:
        """Processes first: a child that is not known yet would be taken for a stranger on the GPU."""
        return (*self._processes(now), *self._gpus(now))

    def _gpus(self, now: float) -> Sequence[Fact]:
        sample = self._place.sample(now, self._pids, host=self.target.host)
        self._sample = sample
        return (sample,)

    def _ask(self, now: float) -> Sequence[Fact]:
        source = self._endpoints
        if source is None or self._ended:
            return ()
        facts = source.poll(now, starting=self._starting)
        foreign = self._foreign(now) if facts else None
        return [foreign] if foreign is not None else self._proved(facts)

    @property
    def _starting(self) -> bool:
        """Until it has answered once the port is asked often: a launch's first answer is what everybody waits for."""
        return self.target.server is not None and not self._answered

    def _foreign(self, now: float) -> Endpoint | None:
        """A port that another process listens on: whatever it answers is not this server's word."""
        run = self.target.run
        if run is None or run.adopted or (self._marked and now - self._port_at < PORT_S):
            return None
        self._port_at = now
        if port_is_ours(run) is not False:
            return None
        words = f"port {run.port} belongs to another process"
        return Endpoint(at=now, url=run.url or "", state="foreign", detail=words)

    def _proved(self, facts: list[Fact]) -> list[Fact]:
        """Ready by its log, and its own port answers so: a later failure can come back to this run."""
        run = self.target.run
        answers = any(isinstance(fact, Endpoint) and fact.state == "ready" for fact in facts)
        self._answered = self._answered or answers
        if run is not None and self._ready and answers and not self._marked and port_is_ours(run):
            self._marked = True
            if run.ready_at is None:
                mark_ready(run)
        return facts
