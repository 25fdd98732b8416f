"""The feed behind a sweep's screen: whatever server the sweep runs now, watched only."""

import asyncio
from collections.abc import Callable

from tui.errors import SpecdeckError
from tui.feed.live import LiveFeed
from tui.feed.place import Place
from tui.feed.targets import of_run
from tui.runs.store import RunStore
from tui.runs.sweepstate import SweepStore
from tui.snapshot import Snapshot

_LOOK_S = 1.0


class FollowingFeed(LiveFeed):
    """Goes from one run of a sweep to the next; the last one stays."""

    def __init__(self, place: Place, store: RunStore, sweep: str) -> None:
        super().__init__(place, store, read_only=True)
        self._sweeps, self._sweep = SweepStore(store.root), sweep

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        following = asyncio.create_task(self._follow())
        try:
            await super().run(on_snapshot)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        shown: str | None = None
        while True:
            name = await asyncio.to_thread(self._newest)
            if name is not None and name != shown:
                run = await asyncio.to_thread(self._store.load, name)
                if run.damaged is None:
                    shown = name
                    self._switch(of_run(run))
            await asyncio.sleep(_LOOK_S)

    def _newest(self) -> str | None:
        """The run of the case that was begun last."""
        try:
            trials = self._sweeps.load(self._sweep).trials
        except SpecdeckError:
            return None
        return max((trial.run for trial in trials if trial.run is not None), default=None)
