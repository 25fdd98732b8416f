"""What the screen shows while the real feed is still made: nothing is known, and nothing can be done yet."""

import asyncio
import time
from collections.abc import Callable

from tui.port import LogView
from tui.runs.nocontrol import NoControl
from tui.snapshot import Snapshot


class OpeningFeed(NoControl):
    """A feed without news, for the first frame."""

    refusal = "The dashboard is still opening: press the key again."
    read_only = True
    greeting = ""
    playback = None
    history = None

    def __init__(self) -> None:
        self.snapshot = Snapshot(at=time.time(), opening=True)

    @property
    def log(self) -> LogView | None:
        return None

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        await asyncio.Event().wait()
