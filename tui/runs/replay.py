"""A run played again, in the same screen: 1 to 1000 times as fast, paused, stepped, sought."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tui.errors import SpecdeckError
from tui.patterns import lazy
from tui.port import LogView, Place, Playback
from tui.runs.history import RunHistory
from tui.runs.nocontrol import NoControl
from tui.runs.recording import RecordingError, recorded
from tui.runs.store import Run, RunStore
from tui.runs.timeline import Landmark, Moment, landmarks, moments
from tui.session import Session
from tui.snapshot import Snapshot
from tui.sources.lineindex import LineIndex

SLOWEST, FASTEST = 1.0, 1000.0
_FRAME_S = 0.25
_CLOCK = lazy(r"\+?(?:(\d+):)?(\d{1,2}):(\d{2})")
_SECONDS = lazy(r"\+?(\d+(?:\.\d+)?)(s|m|min|h)?")
_UNIT_S = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class SeekError(SpecdeckError):
    """There is no such place in the recording."""


class Player:
    """The position in a recording, and the fold up to it. Synchronous and without a clock of its own.

    Seeking forwards reads on; seeking backwards folds again from the start, so that a position says the same however it
    was reached.
    """

    def __init__(self, source: Callable[[], Iterator[Moment]]) -> None:
        """`source` begins the recording anew at every call. Raises RecordingError."""
        self._source = source
        self.landmarks: tuple[Landmark, ...] = ()
        self.start, self.end, self.count = 0.0, 0.0, 0
        self._measure()
        self.restart()

    def restart(self) -> None:
        """Back to before the first moment."""
        self._stream = self._source()
        self._session = Session()
        self.index, self.at, self.log_bytes = 0, self.start, 0
        self._next = next(self._stream, None)

    @property
    def over(self) -> bool:
        """Whether everything has been played."""
        return self._next is None

    def play_to(self, at: float) -> None:
        """Fold everything that was known at time `at`, and stand there."""
        if at < self.at:
            self.restart()
        while self._next is not None and self._next.at <= at:
            self._fold()
        self.at = min(max(at, self.start), max(self.end, self.start))

    def play_index(self, index: int) -> None:
        """Fold the first `index` moments."""
        if index < self.index:
            self.restart()
        while self._next is not None and self.index < index:
            self._fold()

    def step(self, forward: bool = True) -> None:
        """To the next, or the previous, moment at which something became known."""
        if forward:
            if self._next is not None:
                self.play_to(self._next.at)
            return
        now, before = self.at, self.start
        for moment in self._source():
            if moment.at >= now:
                break
            before = moment.at
        self.play_to(before)

    def seek(self, where: str) -> None:
        """To "90%", "+12:30" after the start, "45s", or a landmark: a phase, "ready", "crash", the text of a mark.

        Raises SeekError.
        """
        where = where.strip()
        if where.endswith("%") and where[:-1].replace(".", "", 1).isdecimal():
            self.play_to(self.start + (self.end - self.start) * min(1.0, float(where[:-1]) / 100))
            return
        seconds = _seconds(where)
        if seconds is not None:
            self.play_to(self.start + seconds)
            return
        self.play_index(self._landmark(where).index)

    def jump(self, forward: bool = True) -> Landmark | None:
        """To the next landmark, or to the last one before; None where there is none, and nothing moves."""
        found = next((mark for mark in self.landmarks if mark.index > self.index), None)
        if not forward:
            found = next((mark for mark in reversed(self.landmarks) if mark.index < self.index), None)
        if found is not None:
            self.play_index(found.index)
        return found

    def snapshot(self) -> Snapshot:
        """What the screen showed at this position."""
        return self._session.snapshot(self.at)

    def final(self) -> Snapshot:
        """The last snapshot of the recording, the same as the live one's, made at the time of its last fact."""
        while self._next is not None:
            self._fold()
        return self._session.snapshot()

    def _fold(self) -> None:
        moment = self._next
        if moment is None:
            return
        self._session.apply(moment.fact)
        self.index += 1
        self.at, self.log_bytes = moment.at, max(moment.log_bytes, 0)
        self._next = next(self._stream, None)

    def _measure(self) -> None:
        def seen() -> Iterator[Moment]:
            for moment in self._source():
                if self.count == 0:
                    self.start = moment.at
                self.count, self.end = self.count + 1, moment.at
                yield moment

        self.landmarks = landmarks(seen())

    def _landmark(self, where: str) -> Landmark:
        wanted = where.lower()
        for same in (str.__eq__, str.startswith, str.__contains__):
            for mark in self.landmarks:
                if same(mark.name.lower(), wanted) or (mark.kind == "crash" and wanted == "crash"):
                    return mark
        known = ", ".join(dict.fromkeys([*(mark.name for mark in self.landmarks), "crash"]))
        raise SeekError(f"No {where!r} in this recording: give a time such as +12:30 or 90%, or one of {known}.")


class ReplayLog:
    """The log as far as it was written at a position."""

    lines_before = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self.index: LineIndex | None = None

    def show(self, size: int) -> "ReplayLog":
        """The view that ends at byte `size`; another object when that is behind what was shown."""
        if self.index is not None and size < self.index.scanned:
            return ReplayLog(self._path).show(size)
        if self.index is None:
            try:
                self.index = LineIndex.open(self._path)
            except OSError:
                return self
        if size > self.index.scanned:
            self.index.grow(size - self.index.scanned)
        return self


class ReplayFeed(NoControl):
    """`tui.port.Feed` of a recorded run. Nothing can be controlled but the replay itself."""

    read_only = True

    def __init__(self, run: Run, speed: float = 1.0, start_at: str | None = None) -> None:
        """`start_at`: where to begin, as `Player.seek` reads it."""
        self.run_played = run
        self.snapshot = Snapshot(at=run.started_at or 0.0, replay=True, title=f"replay of {run.name}")
        self.log: LogView | None = None
        self.greeting = "A recording is played: nothing here can start or stop a server."
        self.history = RunHistory(RunStore(run.path.parent.parent))
        self.speed = min(max(speed, SLOWEST), FASTEST)
        self.paused = False
        self.player: Player | None = None
        self._start_at = start_at
        self._log = ReplayLog(run.log)
        self._changed = asyncio.Event()

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        """Play until cancelled; at the end the last picture stays. Raises RecordingError and SeekError."""
        damaged = self.run_played.damaged
        if damaged is not None and not recorded(self.run_played):
            raise RecordingError(f"{self.run_played.name} is damaged, {damaged}")
        self.player = await asyncio.to_thread(Player, lambda: moments(self.run_played))
        if self._start_at is not None:
            await asyncio.to_thread(self.player.seek, self._start_at)
        before = time.monotonic()
        while True:
            await self._show(on_snapshot)
            self._changed.clear()
            waits = None if self.paused or self.player.over else _FRAME_S
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with what it waits for.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(waits):
                    await self._changed.wait()
            now = time.monotonic()
            if waits is not None and not self.paused:
                await asyncio.to_thread(self.player.play_to, self.player.at + (now - before) * self.speed)
            before = time.monotonic()

    def pause(self, paused: bool | None = None) -> bool:
        """Pause or go on; without an argument the other of the two. Returns whether it is paused now."""
        self.paused = not self.paused if paused is None else paused
        self._changed.set()
        return self.paused

    def faster(self, factor: float) -> float:
        """Multiply the speed, between 1 and 1000."""
        self.speed = min(max(self.speed * factor, SLOWEST), FASTEST)
        self._changed.set()
        return self.speed

    async def step(self, forward: bool = True) -> None:
        """One moment on, or back, paused."""
        self.paused = True
        if self.player is not None:
            await asyncio.to_thread(self.player.step, forward)
        self._changed.set()

    async def seek(self, where: str) -> str | None:
        """Jump; a sentence when there is no such place."""
        if self.player is None:
            return "The recording is still being read."
        try:
            await asyncio.to_thread(self.player.seek, where)
        except SpecdeckError as error:
            return str(error)
        self._changed.set()
        return None

    async def jump(self, forward: bool = True) -> str | None:
        """To the next, or the previous, place; its name, None where there is none."""
        if self.player is None:
            return None
        found = await asyncio.to_thread(self.player.jump, forward)
        self._changed.set()
        return found.name if found is not None else None

    @property
    def playback(self) -> Playback:
        return self

    @property
    def places(self) -> tuple[Place, ...]:
        """Phases, marks and crashes, in order; empty until the recording is read."""
        player = self.player
        if player is None:
            return ()
        return tuple(Place(at_s=mark.at - player.start, kind=mark.kind, name=mark.name) for mark in player.landmarks)

    async def _show(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        player = self.player
        if player is None:
            return
        found = await asyncio.to_thread(player.snapshot)
        self._log = self._log.show(player.log_bytes)
        self.log = self._log
        self.snapshot = replace(
            found,
            replay=True,
            controlled=False,
            title=f"replay of {self.run_played.name}",
            playback=self._position(player),
        )
        on_snapshot(self.snapshot)

    def _position(self, player: Player) -> str:
        state = "paused" if self.paused else "ended" if player.over else f"{self.speed:g}x"
        return f"{state}, {_clock(player.at - player.start)} of {_clock(player.end - player.start)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _seconds(text: str) -> float | None:
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return int(clock[1] or 0) * 3600.0 + int(clock[2]) * 60.0 + int(clock[3])
    plain = _SECONDS.fullmatch(text)
    return None if plain is None else float(plain[1]) * _UNIT_S[plain[2]]
