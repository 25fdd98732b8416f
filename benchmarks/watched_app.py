"""The real app on a log, with a stop-watch on its event loop: `python -m benchmarks.watched_app LOG OUT LINES`.

Writes JSON to OUT when the log has LINES lines (or after 150 s) and leaves: the longest time in which the loop did not
come round, when the index was complete, and how many lines it holds.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tui.app import main
from tui.app.main import SpecdeckApp
from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.feed.targets import of_log
from tui.runs.store import RunStore

STEP_S = 0.005
LIMIT_S = 150.0


class WatchedApp(SpecdeckApp):
    """Textual calls the `on_mount` of every class of an app, so this one does not call the other."""

    CSS_PATH = Path(main.__file__).with_name("specdeck.tcss")

    def on_mount(self) -> None:
        self.run_worker(self.stop_watch(), group="watch")

    async def stop_watch(self) -> None:
        lines, began = int(sys.argv[3]), time.monotonic()
        while not self.line_count():  # noqa: ASYNC110 - it is the loop itself that is watched
            await asyncio.sleep(STEP_S)
        os.close(os.open(sys.argv[2] + ".ready", os.O_CREAT | os.O_WRONLY))
        steps: list[float] = []
        last, calm = time.monotonic(), 0.0
        while last - began < LIMIT_S and calm <= 1.0:
            await asyncio.sleep(STEP_S)
            now = time.monotonic()
            steps.append(now - last - STEP_S)
            calm = calm + now - last if self.seen_all(lines) else 0.0
            last = now
        steps.sort()
        found = {
            "longest_s": steps[-1],
            "p999_s": steps[int(len(steps) * 0.999) - 1],
            "lines": self.line_count(),
            "folded_lines": self._feed.snapshot.log_lines,
            "seconds": last - began - calm,
        }
        self.report(json.dumps(found))

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
    sys.setswitchinterval(main.SWITCH_S)
    store = RunStore(Path(tempfile.mkdtemp()))
    WatchedApp(LiveFeed(RealPlace(), store, of_log(Path(sys.argv[1])))).run()
