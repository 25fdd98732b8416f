"""A log file with its index, and the running app with its log pane."""

from tui.app.pace import Pace
from tui.app.widgets.log_pane import LogPane
from tui.sources.lineindex import LineIndex

STAMP = "[2026-11-29 12:40:00 TP{}] "


def traceback(rank: int, frames: int = 6) -> list[str]:
    lines = [STAMP.format(rank) + "Scheduler hit an exception: Traceback (most recent call last):"]
    for i in range(frames):
        lines += [f'  File "/opt/sglang/scheduler.py", line {100 + i}, in step_{i}', "    run()"]
    return [*lines, f"RuntimeError: Not enough memory on rank {rank}.", ""]


class Log:
    """A log file with its index, as the feed hands it to the pane."""

    def __init__(self, path) -> None:
        self.path, self.lines_before = path, 0
        path.write_bytes(b"")
        self.index = LineIndex.open(path)

    def write(self, *lines: str, end: str = "\n") -> None:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write("\n".join(lines) + end)
        while self.index.grow():
            pass

    def rotate(self) -> None:
        self.lines_before += self.index.count
        self.path.rename(self.path.with_suffix(".1"))
        self.path.write_bytes(b"")
        self.index.close()
        self.index = LineIndex.open(self.path)


class Screen:
    """The running app with its pane."""

    def __init__(self, pilot, feed) -> None:
        self.pilot, self.feed = pilot, feed
        self.pane: LogPane = pilot.app.dashboard.query_one(LogPane)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        await self.pilot.pause()
        while busy := [worker for worker in self.pilot.app.workers if worker.group.startswith("log-")]:
            await self.pilot.app.workers.wait_for_complete(busy)
        await self.pilot.pause()

    async def tick(self) -> None:
        """A look after so long a rest that what is new is drawn at once."""
        self.pane._pace = Pace()
        self.pane._tick()
        await self.settle()

    async def type(self, key: str, text: str) -> None:
        await self.press(key)
        field = self.pilot.app.screen.query_one("Input")
        field.value = text
        await self.press("enter")

    @property
    def title(self) -> str:
        return self.pane.text().split("\n")[0]

    @property
    def rows(self) -> list[str]:
        return self.pane.text().split("\n")[1:]

    @property
    def cursor(self) -> str | None:
        return next((row for row in self.rows if row.startswith("▸")), None)

    @property
    def message(self) -> str:
        return self.pilot.app.dashboard.query_one("Footer").message


def numbered(first: int, stop: int) -> list[str]:
    return [f"line {number}" for number in range(first, stop)]
