"""One target, watched: its log, its keeper's journal, its processes, its endpoints and the machine's memory."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace

from tui.factlines import FactLineError, load_fact
from tui.facts import Endpoint, Exited, Fact, GpuSample, Launched, ServerReady, StateChange
from tui.feed.logtask import LogTask
from tui.feed.place import Place
from tui.feed.pollers import poll_every
from tui.feed.pump import Pump
from tui.feed.targets import Target
from tui.procid import alive
from tui.runs.store import load_run
from tui.server.control import mark_ready, port_is_ours
from tui.sources.endpoints import EndpointSource
from tui.sources.logfile import LogFollower
from tui.sources.nvml_visible import visible_uuids
from tui.sources.proctree import environ_value, server_tree
from tui.sources.wake import wake_ups

MACHINE_S = 1.0
PORT_S = 10.0  # how often a ready server's port is looked at again


class Watch:
    """Pushes the facts of one target into a pump. `log` is what the log pane pages through."""

    def __init__(self, target: Target, place: Place, pump: Pump) -> None:
        self.target = target
        self.log = LogTask(target.log) if target.log is not None else None
        self._place = place
        self._pump = pump
        self._stop = asyncio.Event()
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
        self._later: list[Fact] = []

    async def run(self) -> None:
        """Until `stop()`; a source that fails is a fact, never an exception, so what escapes here is a defect."""
        try:
            await self._begin()
            async with asyncio.TaskGroup() as tasks:
                if self.log is not None:
                    tasks.create_task(self.log.run(self._pump, self._stop, self._noticed))
                if self._journal is not None:
                    tasks.create_task(self._follow_journal(self._journal))
                if self._endpoints is not None:
                    tasks.create_task(poll_every(self._ask, self._pump, self._stop, self._next_question_s))
                tasks.create_task(poll_every(self._machine, self._pump, self._stop, lambda: MACHINE_S))
        finally:
            self._close()

    def stop(self) -> None:
        """End every task; files and connections are closed."""
        self._stop.set()

    async def first_look(self) -> None:
        """One look at everything, for a snapshot without a screen."""
        try:
            await self._begin()
            if self.log is not None:
                facts = await asyncio.to_thread(self.log.read_all)
                self._noticed(facts)
                await self._pump.push(facts)
                self.log.close()
            await self._pump.push(self._later)
            for poll in (self._ask, self._machine):
                await self._pump.push(await asyncio.to_thread(poll, time.time()))
        finally:
            self._close()

    async def _begin(self) -> None:
        """The launch comes first of all, and what the journal tells after it waits for the log to be read: ready, then
        the exit, as it was."""
        await self._pump.push(self.target.facts)
        if self._journal is not None:
            told = await asyncio.to_thread(self._read_journal, self._journal)
            launched = sum(isinstance(fact, Launched) for fact in told[:1])
            await self._pump.push(told[:launched])
            self._later = told[launched:]

    def _close(self) -> None:
        if self._endpoints is not None:
            self._endpoints.close()
        if self._journal is not None:
            self._journal.close()

    # ---- the keeper's journal

    async def _follow_journal(self, journal: LogFollower) -> None:
        if self.log is not None:
            await self.log.caught_up.wait()
        await self._pump.push(self._later)
        async for _ in wake_ups(journal.path, self._stop):
            await self._pump.push(await asyncio.to_thread(self._read_journal, journal))

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

    # ---- polls, each in a worker thread

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

    def _next_question_s(self) -> float:
        if self._endpoints is None or self._ended:  # nobody is asked any more, so nothing would ever be due later
            return MACHINE_S
        return self._endpoints.wait_s(time.time(), self._starting)

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
