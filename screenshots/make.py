"""Makes the pictures of the README: the real app on facts of the rehearsal machine. `make screenshots`.

SVG always; PNG too where chromium or rsvg-convert is installed. With --to FOLDER they go there instead, without PNG: a
test compares those with the ones that are kept here.
"""

import argparse
import asyncio
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Nothing of the terminal, the configuration or the time zone of whoever makes the pictures may show in them.
for name in ("NO_COLOR", "TMUX", "TEXTUAL_THEME", "SPECDECK_STATE_DIR"):
    os.environ.pop(name, None)
os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
os.environ |= {"XDG_CONFIG_HOME": "/home/operator/.config", "XDG_STATE_HOME": "/home/operator/.local/state"}

import campaign  # noqa: E402
import scenes  # noqa: E402

from tui.app.main import SpecdeckApp  # noqa: E402
from tui.facts import GpuSample  # noqa: E402
from tui.feed.place import RehearsalPlace  # noqa: E402
from tui.feed.planning import PlannedForecast, Planner  # noqa: E402
from tui.port import FlagInfo, ProfileChoice  # noqa: E402
from tui.rehearsal.machine import Settings  # noqa: E402
from tui.runs.history import RunHistory  # noqa: E402
from tui.sources.lineindex import LineIndex  # noqa: E402

SIZES = ((120, 40), (80, 24))
# Fonts from the web would make a picture depend on a server; the viewer's own monospaced one is as good.
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass
class Log:
    """The stage's log, to page through."""

    index: LineIndex
    lines_before: int = 0


class StillFeed:
    """One moment of a stage as the app's feed. The forecast is the real one, on the GPUs of that moment."""

    read_only = False
    greeting = ""
    caption = leaving = ""
    playback = None
    owner = ""

    def __init__(self, stage: scenes.Stage, folder: Path, history: RunHistory | None = None) -> None:
        self.history = history
        self.snapshot = stage.snapshot()
        self._stage = stage
        path = folder / "server.log"
        path.write_bytes(stage.log)
        index = LineIndex.open(path)
        while index.grow():
            pass
        self.log = Log(index)
        self._planner = Planner(StillPlace(stage.sample()))

    async def run(self, on_snapshot: Callable[[object], None]) -> None:
        on_snapshot(self.snapshot)
        await asyncio.Event().wait()

    def profiles(self) -> tuple[ProfileChoice, ...]:
        return ()

    def flags(self) -> tuple[FlagInfo, ...]:
        return self._planner.flags(self._stage.profile, self.snapshot.sglang_version)

    async def forecast(self, knobs: Mapping[str, object]) -> PlannedForecast | None:
        profile = self._stage.profile
        return None if profile is None else self._planner.forecast(profile, knobs, self.snapshot)

    async def preflight(self, profile: str | None, knobs: Mapping[str, object]) -> tuple[()]:
        return ()

    async def back_to(self) -> str | None:
        return "2026-11-29T02-10-00_kimi-k2.5-base"

    async def forecast_launch(self, name: str) -> PlannedForecast | None:
        return None

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        return "A picture starts nothing."

    async def stop(self, grace_s: float) -> AsyncIterator[str]:
        yield "A picture stops nothing."

    async def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[str]:
        yield "A picture starts nothing."


class StillPlace(RehearsalPlace):
    """The rehearsal machine with its GPUs as they were."""

    def __init__(self, sample: GpuSample) -> None:
        super().__init__(Settings())
        self._seen = sample

    def sample(self, now: float, pids: object, *, host: bool) -> GpuSample:
        return self._seen


async def _on_fraction(app: SpecdeckApp, pilot: object, *keys: str) -> None:
    """Keys on the knob that the story is about."""
    from tui.app.widgets.knobs import Knobs

    knobs = app.dashboard.query_one(Knobs)
    knobs.focus()
    knobs.select("mem-fraction-static")
    await _press(app, pilot, *keys)


async def _press(app: SpecdeckApp, pilot: object, *keys: str) -> None:
    await pilot.press(*keys)  # type: ignore[attr-defined]


async def _history(app: SpecdeckApp, pilot: object, *keys: str) -> None:
    """Keys on the history, each when the one before has done its work."""
    from tui.app.widgets.footer import Footer

    for key in ("H", *keys):
        await _press(app, pilot, key)
        await _settled(app, pilot)
    for footer in app.screen.query(Footer):  # what a key's message says for some seconds
        footer.hush()


# name -> (moment, what is done before the picture is taken)
PICTURES: dict[str, tuple[str, Callable[..., object] | None]] = {
    "empty": ("empty", None),
    "loading": ("loading", None),
    "serving": ("serving", None),
    # Two steps less of the fraction: the ghosts show what a restart would bring.
    "pending": ("serving", lambda app, pilot: _on_fraction(app, pilot, "minus", "minus")),
    "editor": ("serving", lambda app, pilot: _on_fraction(app, pilot, "enter")),
    "crashed": ("crashed", None),
    "restart": ("crashed", lambda app, pilot: _press(app, pilot, "a", "R")),
    "help": ("serving", lambda app, pilot: _press(app, pilot, "question_mark")),
    "runs": ("serving", lambda app, pilot: _history(app, pilot, "down")),
    "compare": ("serving", lambda app, pilot: _history(app, pilot, "space", "space", "down", "space", "c")),
    "replay": ("serving", lambda app, pilot: _history(app, pilot, "r", "space", "t", *"8:00", "enter")),
}


async def _settled(app: SpecdeckApp, pilot: object) -> None:
    for _ in range(3):
        busy = [worker for worker in app.workers if worker.group != "feed" and worker.is_running]
        if busy:
            await app.workers.wait_for_complete(busy)
        await pilot.pause()  # type: ignore[attr-defined]


async def take(
    stage: scenes.Stage, size: tuple[int, int], act: Callable[..., object] | None, history: RunHistory | None = None
) -> str:
    """The screen as SVG."""
    with tempfile.TemporaryDirectory(prefix="specdeck-pictures-") as folder:
        app = SpecdeckApp(StillFeed(stage, Path(folder), history))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            if act is not None:
                await act(app, pilot)  # type: ignore[misc]
            await _settled(app, pilot)
            svg = app.export_screenshot(title="specdeck")
    return _FONT_FACE.sub("", svg).replace("Fira Code", "monospace")


def png(svg: Path) -> None:
    """A PNG beside an SVG, where there is a program that can make one.

    Chromium comes first: it keeps every glyph in its column, whatever fonts there are.
    """
    target = svg.with_suffix(".png")
    if (chromium := shutil.which("chromium")) is not None:
        found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())
        assert found is not None
        size = ",".join(str(math.ceil(float(number))) for number in found.groups())
        with tempfile.TemporaryDirectory(prefix="specdeck-chromium-") as home:
            command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            command += [f"--user-data-dir={home}", f"--window-size={size}", f"--screenshot={target}", svg.as_uri()]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    elif (rsvg := shutil.which("rsvg-convert")) is not None:
        subprocess.run([rsvg, "--output", str(target), str(svg)], check=True)
    else:
        print("Neither chromium nor rsvg-convert (Debian: librsvg2-bin) is installed: no PNG.", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, help="another folder; SVG only")
    options = parser.parse_args()
    folder = options.to or HERE
    folder.mkdir(parents=True, exist_ok=True)
    stages = {name: getattr(scenes, name)() for name in scenes.MOMENTS}
    with tempfile.TemporaryDirectory(prefix="specdeck-campaign-") as state:
        history = RunHistory(campaign.made(Path(state)))
        for name, (moment, act) in PICTURES.items():
            for columns, rows in SIZES:
                path = folder / f"{name}-{columns}x{rows}.svg"
                path.write_text(asyncio.run(take(stages[moment], (columns, rows), act, history)))
                if options.to is None:
                    png(path)
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
