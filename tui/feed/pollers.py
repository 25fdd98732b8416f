"""What is asked at intervals: GPUs, processes, endpoints. In worker threads: a hung driver never holds the screen."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from tui.facts import Fact
from tui.feed.pump import Pump

Poll = Callable[[float], Sequence[Fact]]


async def poll_every(
    poll: Poll, pump: Pump, stop: asyncio.Event, interval_s: Callable[[], float], clock: Callable[[], float] = time.time
) -> None:
    """Push what `poll(now)` finds, then wait `interval_s()`: a slow answer delays the next question."""
    while not stop.is_set():
        await asyncio.to_thread(lambda: pump.fold(poll(clock())))
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with what it waits for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval_s()):
                await stop.wait()
