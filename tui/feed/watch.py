"""One target, watched: everything that `Looking` sees of it, again and again."""

import asyncio
import time
from collections.abc import Sequence

from tui.facts import Exited, Fact
from tui.feed.logtask import LogTask
from tui.feed.looking import Looking
from tui.feed.place import Place
from tui.feed.pollers import poll_every
from tui.feed.pump import Pump
from tui.feed.targets import Target
from tui.sources.logfile import LogFollower
from tui.sources.wake import wake_ups

MACHINE_S = 1.0


class Watch(Looking):
    """Pushes the facts of one target into a pump. `log` is what the log pane pages through."""

    def __init__(self, target: Target, place: Place, pump: Pump) -> None:
        super().__init__(target, place)
        self.log = LogTask(target.log) if target.log is not None else None
        self._pump = pump
        self._stop = asyncio.Event()
        self._later: list[Fact] = []

    async def run(self) -> None:
        """Until `stop()`; a source that fails is a fact, never an exception, so what escapes here is a defect."""
        try:
            begun, self._later = await asyncio.to_thread(self._begun)
            await self._pump.push(begun)
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

    async def _follow_journal(self, journal: LogFollower) -> None:
        if self.log is not None:
            await self.log.caught_up.wait()
        await self._tell(self._later)
        async for _ in wake_ups(journal.path, self._stop):
            await self._tell(await asyncio.to_thread(self._read_journal, journal))

    async def _tell(self, told: Sequence[Fact]) -> None:
        if self.log is not None and any(isinstance(fact, Exited) for fact in told):
            await self.log.settled()  # what it said last tells why it ended, and may not come after its end
        await self._pump.push(told)

    def _next_question_s(self) -> float:
        if self._endpoints is None or self._ended:  # nobody is asked any more, so nothing would ever be due later
            return MACHINE_S
        return self._endpoints.wait_s(time.time(), self._starting)
