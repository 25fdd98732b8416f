"""The story on the rehearsal machine: by hand with a caption for each step, or by itself."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tui.feed.live import LiveFeed
from tui.feed.place import RehearsalPlace
from tui.runs.store import RunStore
from tui.snapshot import Snapshot, State

SERVE_S = 12.0  # how long a served state is looked at


@dataclass(frozen=True, slots=True)
class Act:
    """One step of the story: what is said, what is launched, what it comes to."""

    caption: str
    profile: str
    knobs: dict[str, Any]


STORY = (
    Act("1/4  A baseline without speculation: graphs for batches of up to 512 requests.", "kimi-k2.5-base",
        {"cuda-graph-max-bs": 512}),
    Act("2/4  Smaller graphs, up to 128: more KV, and faster.", "kimi-k2.5-base", {"cuda-graph-max-bs": 128}),
    Act("3/4  EAGLE-3 at the automatic fraction: it fell by 0.02, and the weights no longer fit under it.",
        "kimi-k2.5-eagle3", {}),
    Act("4/4  The same with the fraction that the forecast suggests. Does speculation pay?", "kimi-k2.5-eagle3",
        {"mem-fraction-static": 0.85}),
)  # fmt: skip


class DemoFeed(LiveFeed):
    """A LiveFeed on the rehearsal that can play its story. Any key of the operator's still works meanwhile."""

    def __init__(self, place: RehearsalPlace, store: RunStore, *, play: bool = False) -> None:
        super().__init__(place, store)
        self._play = play
        scenario = place.settings.plot
        self.greeting = f"{scenario.caption}. L launches a profile."

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        playing = asyncio.create_task(self._story()) if self._play else None
        try:
            await super().run(on_snapshot)
        finally:
            if playing is not None:
                playing.cancel()
                with suppress(asyncio.CancelledError):
                    await playing

    async def _story(self) -> None:
        scenario = self.place.settings.plot if isinstance(self.place, RehearsalPlace) else None
        acts: tuple[Act, ...] = STORY
        if scenario is not None and scenario.name != "story":
            acts = (Act(scenario.caption, scenario.profile, dict(scenario.knobs)),)
        for act in acts:
            await asyncio.sleep(2.0)
            self.greeting = act.caption
            if self.snapshot.state in (State.RUNNING, State.STARTING):
                async for step in self.stop(5.0):
                    self.greeting = step
                self.greeting = act.caption
            problem = await self.launch(act.profile, act.knobs)
            if problem:
                self.greeting = problem
                return
            await self._until(lambda: self.snapshot.state in (State.RUNNING, State.FAILED))
            await asyncio.sleep(SERVE_S)
        self.greeting = "The end: L launches, R restarts with other knobs, q leaves."

    async def _until(self, reached: Callable[[], bool], limit_s: float = 120.0) -> None:
        for _ in range(round(limit_s / 0.2)):
            if reached():
                return
            await asyncio.sleep(0.2)
