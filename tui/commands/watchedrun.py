"""A run watched and recorded from a thread of its own, for commands that do something else meanwhile."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Self

from tui.errors import SpecdeckError
from tui.feed.place import Place
from tui.feed.pump import Pump
from tui.feed.targets import of_run
from tui.feed.watch import Watch
from tui.runs.recorder import Recorder
from tui.runs.store import Run, load_run
from tui.snapshot import ENDED, Snapshot

_LOOK_S = 0.1
_END_S = 5.0  # the watch tells an exit after the log's last lines, which on a busy machine takes a moment
_LAST_LINES_S = 1.0  # the log's last lines are read after the keeper's word


class WatchedRun:
    """Watches until it is closed. `snapshot` is the latest; closing an ended run packs it and writes its summary."""

    def __init__(self, run: Run, place: Place) -> None:
        self.run = run
        self.snapshot = Snapshot(at=time.time())
        self._place = place
        self._recorder = Recorder(run.path)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def wait(self, done: Callable[[Snapshot], bool], timeout_s: float | None, tick: Callable[[Snapshot], None]) -> bool:
        """Until `done(snapshot)`; False when the time was over first. `tick` is called at every look."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not done(self.snapshot):
            if self._error is not None:
                raise SpecdeckError(f"{self.run.name} cannot be watched: {self._error}.") from self._error
            if until is not None and time.monotonic() > until:
                return False
            tick(self.snapshot)
            time.sleep(_LOOK_S)
        return True

    def settle(self) -> Snapshot:
        """The snapshot after the last lines of an ended server were read."""
        time.sleep(_LAST_LINES_S)
        return self.snapshot

    def close(self) -> None:
        """End the watch and the recording; of a run that has ended, once its end was seen."""
        if load_run(self.run.path).exited is not None:
            with contextlib.suppress(SpecdeckError):  # a watch that broke sees no end
                self.wait(lambda shot: shot.state in ENDED, _END_S, lambda _: None)
        self._stop.set()
        self._thread.join()
        self._recorder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        try:
            asyncio.run(self._watch())
        except BaseException as error:  # told by `wait`, in the thread that asked
            self._error = error

    async def _watch(self) -> None:
        pump = Pump(self._recorder.record)
        watch = Watch(of_run(self.run), self._place, pump)
        task = asyncio.create_task(watch.run())
        try:
            while not self._stop.is_set():
                self.snapshot = await pump.snapshot(time.time())
                if task.done():
                    task.result()
                await asyncio.sleep(_LOOK_S)
        finally:
            watch.stop()
            await task
            pump.close()
