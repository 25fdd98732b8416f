"""A log that is read again and again, whenever it grows."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from tui.facts import Fact
from tui.feed.logreading import QUIET_S, Clock, LogReading
from tui.feed.pump import Pump
from tui.sources.stream import Stream
from tui.sources.wake import wake_ups

SETTLED_LIMIT_S, SETTLED_LOOK_S = 1.0, 0.02  # a burst of 50 000 lines is read in less
REST_S = 0.15  # between two reads of a log that streams; a line that comes alone is read at once


class LogTask(LogReading):
    """Follows one log. `caught_up`: the end was reached."""

    def __init__(self, path: Path, clock: Clock = time.time) -> None:
        super().__init__(path, clock)
        self.caught_up = asyncio.Event()
        self._heard: Callable[[], None] | None = None
        self._stream = Stream()
        self._under_way = False  # facts that were read and are not pushed yet

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard`, from the event loop, whenever the log was read; of several listeners the last."""
        self._heard = heard

    async def run(self, pump: Pump, stop: asyncio.Event, noticed: Callable[[Sequence[Fact]], None]) -> None:
        """Push facts until `stop` is set, telling each batch to `noticed` too, on a thread."""

        def step(quiet: bool) -> bool:
            chunk, facts = self._step(quiet)
            if chunk.parts:
                self._stream.news(time.monotonic())
            noticed(facts)
            pump.fold(facts)
            return chunk.more

        try:
            async with aclosing(wake_ups(self.path, stop)) as wakes:
                async for _ in wakes:
                    quiet = False
                    while not stop.is_set():
                        self._under_way = True
                        more = await asyncio.to_thread(step, quiet)
                        self._under_way = False
                        if self._heard is not None:
                            self._heard()
                        if more:
                            continue
                        self.caught_up.set()
                        if not self._grammar.waits:
                            break
                        quiet = True
                        await asyncio.sleep(QUIET_S)
                    await self._rest()
        finally:
            self.caught_up.set()  # whoever waits for it waits no longer
            self.close()

    async def _rest(self) -> None:
        """Not in a log that is quiet."""
        if self._stream.flows(time.monotonic()):
            await asyncio.sleep(REST_S)

    async def settled(self) -> None:
        """Until all that the file holds was pushed and no line waits for the next; `SETTLED_LIMIT_S` at most."""
        for _ in range(round(SETTLED_LIMIT_S / SETTLED_LOOK_S)):
            at_end = await asyncio.to_thread(self._is_at_end)
            if at_end and not self._under_way and not self._grammar.waits:
                return
            await asyncio.sleep(SETTLED_LOOK_S)

    def _is_at_end(self) -> bool:
        try:
            return self._told is not None and self._told[0] >= self.path.stat().st_size
        except OSError:
            return True
