"""The real app on a log, with a stop-watch on its event loop.

`python -m benchmarks.watched_app LOG OUT LINES NUMBERED` leaves when the log has LINES lines (or after 150 s) and puts
JSON into OUT: the longest time in which the loop did not come round once the first screen stood, when the index and the
fold were complete, how many lines each of them counts, and of the lines with the numbers below NUMBERED
(`flood.numbered`) how many the reader and the pane's index do not hold exactly once and in order.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tui.app import main
from tui.app.log_query import parse
from tui.app.main import SpecdeckApp
from tui.app.widgets.log_pane import LogPane
from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.feed.targets import of_log
from tui.runs.store import RunStore
from tui.sources.logfile import LogChunk, LogFollower

STEP_S = 0.005
LIMIT_S = 150.0
SETTLED_S = 1.5  # after the first lines: the screen stands
SEARCHES = ("nowhere in it", "/no.?where in (it|here)/")
NUMBER = re.compile(rb"#token: 1(\d{8}),")


def age_s() -> float:
    """Seconds since this process began."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def worst(late: list[float]) -> dict[str, float]:
    late = sorted(late)
    return {"longest_s": late[-1], "p999_s": late[int(len(late) * 0.999) - 1]}


def once(data: bytes, lines: int) -> int:
    """How many of the numbers 0 .. lines-1 are not there exactly once and in order."""
    found = [int(number) for number in NUMBER.findall(data)]
    return 0 if found == list(range(lines)) else max(1, len(set(range(lines)).symmetric_difference(found)))


def listen(given: list[bytes]) -> None:
    """Keep what the log's reader gives from now on, for a count by the lines' own numbers afterwards."""
    poll = LogFollower.poll

    def listened(follower: LogFollower, slice_bytes: int | None = None) -> LogChunk:
        chunk = poll(follower, slice_bytes)
        given.extend(part.encode() + b"\n" if isinstance(part, str) else part for part in chunk.parts)
        return chunk

    LogFollower.poll = listened  # type: ignore[method-assign]


class WatchedApp(SpecdeckApp):
    """Textual calls the `on_mount` of every class of an app, so this one does not call the other."""

    CSS_PATH = Path(main.__file__).with_name("specdeck.tcss")

    def on_mount(self) -> None:
        self.run_worker(self.stop_watch(), group="watch")

    async def stop_watch(self) -> None:
        lines, numbered, began = int(sys.argv[3]), int(sys.argv[4]), time.monotonic() - age_s()
        given: list[bytes] = []
        if numbered:
            listen(given)
        await self.watch(lambda: bool(self.line_count() and self._drawn_at))
        await self.watch(time.monotonic() + SETTLED_S)
        os.close(os.open(sys.argv[2] + ".ready", os.O_CREAT | os.O_WRONLY))
        found: dict[str, object] = {}
        late = await self.watch(lambda: self.line_count() >= lines)
        found["indexed_s"] = time.monotonic() - began
        late += await self.watch(lambda: self.seen_all(lines))
        found["seconds"] = time.monotonic() - began
        late += await self.watch(time.monotonic() + 1.0)
        found |= {"lines": self.line_count(), "folded_lines": self._feed.snapshot.log_lines, **worst(late)}
        if numbered:
            found["read_wrong"] = once(b"".join(given), numbered)
            found["indexed_wrong"] = once("\n".join(self._feed.log.index.read(0, lines)).encode(), numbered)
        else:
            found["searches"] = {typed: await self.search(typed) for typed in SEARCHES}
        self.report(json.dumps(found))

    async def watch(self, until: Callable[[], bool] | float) -> list[float]:
        """By how much each round of the loop came late until that time, or until that holds."""
        late: list[float] = []
        began = last = time.monotonic()
        while last - began < LIMIT_S and not (until() if callable(until) else last >= until):
            await asyncio.sleep(STEP_S)
            now = time.monotonic()
            late.append(now - last - STEP_S)
            last = now
        return late

    async def search(self, typed: str) -> dict[str, float]:
        """Look backwards from the end for what is nowhere."""
        pane = self.dashboard.query_one(LogPane)
        pane._query = parse(typed)
        began = time.monotonic()
        pane._find(forward=False)
        late = await self.watch(lambda: not any(worker.group == "log-search" for worker in self.workers))
        return {"seconds": time.monotonic() - began, **worst(late)}

    def report(self, found: str) -> None:
        part = Path(sys.argv[2] + ".part")
        part.write_text(found)
        part.rename(sys.argv[2])
        os._exit(0)

    def seen_all(self, lines: int) -> bool:
        """Indexed for the pane and folded into the snapshot."""
        return self.line_count() >= lines and self._feed.snapshot.log_lines >= lines

    def line_count(self) -> int:
        log = self._feed.log
        return log.index.count if log is not None and log.index is not None else 0


if __name__ == "__main__":
    main.prepare()
    store = RunStore(Path(tempfile.mkdtemp()))
    WatchedApp(LiveFeed(RealPlace(), store, of_log(Path(sys.argv[1])))).run()
