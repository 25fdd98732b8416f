"""The blocking steps of a stop, a kill or a restart, taken one by one without holding the screen."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import suppress

from tui.errors import SpecdeckError
from tui.port import Told
from tui.server.stopping import Step


async def each(steps: Iterator[Step]) -> AsyncIterator[Step]:
    """Each step in a worker thread; a failure is the last step."""
    while True:
        try:
            step = await asyncio.to_thread(next, steps, None)
        except SpecdeckError as error:
            yield Step("done", str(error), ok=False)
            return
        if step is None:
            return
        yield step


def told(step: Step) -> Told:
    """As the screen takes it."""
    return Told(step.text, step.kind, step.left_s, step.ok)


def close(steps: Iterator[Step]) -> None:
    """Nothing after the present step is done; one that still runs in its thread ends by itself."""
    if isinstance(steps, Generator):
        with suppress(ValueError):
            steps.close()
