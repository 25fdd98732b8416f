"""The story on the rehearsal machine: by hand, or played by itself with a caption for each step."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median
from typing import Any

from tui.facts import DecodeBatch
from tui.feed.coach import BASE, EAGLE3, Coach
from tui.feed.live import LiveFeed
from tui.feed.logreading import LogReading
from tui.feed.place import RehearsalPlace
from tui.runs.store import RunStore
from tui.snapshot import Snapshot, State
from tui.wording import count

READ_S = 5.0  # how long a caption stands before the next one may come
SERVE_S = 6.0  # how long a serving server is looked at before its numbers are told
SYMPTOM_S = 45.0  # how long a scenario's server is watched for what goes wrong with it
USUAL_SPEED = 60.0
# The speed that is told: the median of these decode lines of the log. What a server writes depends on the seed alone,
# so counting its lines, instead of waiting a time, tells the same numbers on every machine.
SKIPPED_LINES, COUNTED_LINES = 2, 7


class StoryEndsError(Exception):
    """Something did not go as the story wants; the message is said on the screen."""


class DemoFeed(LiveFeed):
    """A LiveFeed on the rehearsal that can play its story. Any key of the operator's still works meanwhile.

    Pauses shrink as the rehearsal's speed grows beyond the usual one, so that a fast rehearsal tells a fast story.
    """

    def __init__(self, place: RehearsalPlace, store: RunStore, *, play: bool = False) -> None:
        super().__init__(place, store)
        self._play = play
        self._settings = place.settings
        self._pace = min(1.0, USUAL_SPEED / place.settings.speed)
        self._port = _free_port()
        self.told: list[str] = []  # every caption so far
        self.over = False
        if not play:
            self.coach = Coach()
        else:
            self.caption = (
                "A simulated machine: 8 GPUs, SGLang's log lines, SGLang's memory rule. Nothing real is started. "
                "The story plays by itself; q leaves."
            )

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        playing = asyncio.create_task(self._tell_all()) if self._play else None
        try:
            await super().run(on_snapshot)
        finally:
            if playing is not None:
                playing.cancel()
                with suppress(asyncio.CancelledError):
                    await playing

    async def _tell_all(self) -> None:
        try:
            await self._pause(READ_S)
            if self._settings.scenario == "story":
                await self._story()
            else:
                await self._scenario_alone()
        except StoryEndsError as error:
            self.say(f"The story ends here: {error}")
        self.over = True

    def say(self, text: str) -> None:
        """A caption, which stands until the next one."""
        self.told.append(text)
        self.caption = text

    # ---- the story

    async def _story(self) -> None:
        await self._begin("1/5 A baseline: no speculation, CUDA graphs for up to 512 requests. "
                          "The bars fill phase by phase.", BASE, {"cuda-graph-max-bs": 512})  # fmt: skip
        large, _ = await self._served("1/5 Graphs up to 512")
        await self._again("2/5 The same with graphs for up to 128 requests: SGLang sets less memory aside for them.",
                          {"cuda-graph-max-bs": 128})  # fmt: skip
        small, _ = await self._served("2/5 Graphs up to 128")
        await self._foretold()
        await self._begin("3/5 Launched all the same. Watch the bars, then the card over the log.", EAGLE3, {})
        fix = await self._refused()
        await self._forecast(fix)
        await self._again(f"4/5 Launched again with the fix, {_words(fix)}. By hand: a takes the fix, R launches.", fix)
        fast, accept = await self._served("4/5 EAGLE-3")
        pays = "EAGLE-3 pays" if fast > small else "EAGLE-3 does not pay"
        per_step = f", {accept:.2f} tokens per step" if accept else ""
        self.say(
            f"5/5 {pays}: {large:.0f} tok/s at first, {small:.0f} by smaller graphs, {fast:.0f} by EAGLE-3 "
            f"({100 * (fast / small - 1):+.0f} %{per_step}). H compares the runs, q leaves."
        )

    async def _scenario_alone(self) -> None:
        scenario = self._settings.plot
        await self._begin(f"{scenario.caption}.", scenario.profile, scenario.knobs)
        wanted = SYMPTOM_S if self.snapshot.state is not State.FAILED else 10.0
        await self._until(lambda: self._symptom() is not None, wanted)
        self.say(f"{self._symptom() or 'Nothing is wrong yet: go on watching.'} {self._keys()}q leaves.")

    def _symptom(self) -> str | None:
        verdict, warnings = self.snapshot.verdict, self.snapshot.warnings
        if verdict is not None:
            fixes = f" Fix: {_words({fix.knob: fix.new for fix in verdict.fixes[:1]})}." if verdict.fixes else ""
            return f"{verdict.title}.{fixes}"
        return f"{warnings[0].text}." if warnings else None

    def _keys(self) -> str:
        """The keys that tell more of what went wrong, and mend it."""
        verdict = self.snapshot.verdict
        if verdict is None:
            return "R restarts it, "
        return "v tells all, a applies the fix, " if verdict.fixes else "v tells all, "

    # ---- steps

    async def _begin(self, caption: str, profile: str, knobs: Mapping[str, Any]) -> None:
        """Launch, after stopping what runs; returns when it serves or has failed."""
        self.say(caption)
        await self._pause(READ_S)
        if self.snapshot.state in (State.RUNNING, State.STARTING):
            async for _ in self.stop(5.0):
                pass
        before = self.snapshot.run
        problem = await self.launch(profile, {**knobs, "port": self._port})
        if problem is not None:
            raise StoryEndsError(problem)
        await self._settled(before)

    async def _again(self, caption: str, knobs: Mapping[str, Any]) -> None:
        """Restart with other knobs; returns when it serves or has failed."""
        self.say(caption)
        await self._pause(READ_S)
        before, last = self.snapshot.run, ""
        async for step in self.restart(knobs):
            last = step
        if self.run_now is None or self.run_now.name == before:
            raise StoryEndsError(last)
        await self._settled(before)

    async def _served(self, what: str) -> tuple[float, float | None]:
        """Look at a serving server for a while; its tok/s, and its tokens per step where it speculates."""
        if self.snapshot.state is not State.RUNNING:
            raise StoryEndsError(f"{what} does not serve.")
        await self._pause(SERVE_S)
        decoded: list[DecodeBatch] = []
        for _ in range(300):
            decoded = (await asyncio.to_thread(self._decoded))[SKIPPED_LINES : SKIPPED_LINES + COUNTED_LINES]
            if len(decoded) == COUNTED_LINES:
                break
            await asyncio.sleep(0.1)
        if not decoded:
            raise StoryEndsError(f"{what} decodes nothing.")
        speed = median(line.gen_tok_s or 0.0 for line in decoded)
        accepts = [line.accept_len for line in decoded if line.accept_len is not None]
        accept = median(accepts) if accepts else None
        per_step = f", {accept:.2f} tokens per step" if accept else ""
        tokens = count(self.snapshot.kv_tokens or 0)
        self.say(f"{what}: {speed:.1f} tok/s{per_step}, and a KV cache for {tokens} tokens.")
        await self._pause(READ_S)
        return speed, accept

    def _decoded(self) -> list[DecodeBatch]:
        """Every decode line of the server's log so far."""
        run = self.run_now
        if run is None:
            return []
        log = LogReading(run.log)
        try:
            return [fact for fact in log.read_all() if isinstance(fact, DecodeBatch) and fact.gen_tok_s is not None]
        finally:
            log.close()

    async def _foretold(self) -> None:
        """What is known of EAGLE-3 before it is launched."""
        planned = await self.forecast_launch(EAGLE3, {})
        if planned is not None:
            self.say(f"3/5 EAGLE-3 next. The plan: {planned.found.verdict.text}")
            await self._pause(2 * READ_S)

    async def _refused(self) -> dict[str, Any]:
        """The server died, as it must; the knobs of the verdict's fix."""
        await self._until(lambda: self.snapshot.verdict is not None and bool(self.snapshot.verdict.fixes), 10.0)
        verdict = self.snapshot.verdict
        if self.snapshot.state is not State.FAILED or verdict is None or not verdict.fixes:
            raise StoryEndsError("the server started, which this machine should not allow.")
        self.say(f"3/5 It died, and the card says why at once: {verdict.title}.")
        await self._pause(2 * READ_S)
        return {verdict.fixes[0].knob: verdict.fixes[0].new}

    async def _forecast(self, fix: Mapping[str, Any]) -> None:
        planned = await self.forecast(fix)
        if planned is not None:
            self.say(f"4/5 The plan with {_words(fix)}: {planned.verdict}")
            await self._pause(READ_S)

    async def _settled(self, before: str | None) -> None:
        """Another run than `before` is on the screen, and serves or has failed."""
        limit_s = 1500.0 / self._settings.speed + 60.0
        done = (State.RUNNING, State.FAILED)
        if not await self._until(lambda: self.snapshot.run != before and self.snapshot.state in done, limit_s):
            raise StoryEndsError("the server neither serves nor has failed.")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)

    async def _until(self, reached: Callable[[], bool], limit_s: float) -> bool:
        for _ in range(round(limit_s / 0.1)):
            if reached():
                return True
            await asyncio.sleep(0.1)
        return reached()


def _free_port() -> int:
    """The profile's own port may be a real server's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _words(knobs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in knobs.items())
