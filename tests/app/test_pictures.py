"""Pictures of the screen, compared with the ones that were looked at and found good.

Each is kept as text: what is in the cells, then the style of each run of cells. `--snapshot-update` keeps new ones.
With SPECDECK_PICTURES=FOLDER in the environment they are also drawn there as SVG, to be looked at.
"""

import difflib
import os
import string
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest
from textual.command import CommandInput, CommandList
from textual.pilot import Pilot

from tui.app.main import SpecdeckApp
from tui.app.widgets.knobs import Knobs
from tui.snapshot import Phase

KEPT = Path(__file__).parent / "pictures"
HOME, SMALL, WIDE = (120, 40), (80, 24), (200, 60)
SIZES = (HOME, SMALL, WIDE)
MODES = {
    "dark": {},
    "sixteen": {"TERM": "screen", "COLORTERM": ""},
    "no-colour": {"NO_COLOR": "1"},
    "ascii": {},
}
Act = Callable[[Pilot], Awaitable[object]]


@dataclass(frozen=True)
class Scene:
    """What the feed shows, what it forecasts, what happened before the picture, and whose log is in sight."""

    state: str
    forecast: str = ""
    act: Act | None = None
    log: str = ""


def press(*keys: str) -> Act:
    async def act(pilot: Pilot) -> None:
        for key in keys:
            await pilot.press(key)
            await settled(pilot)

    return act


def on_knob(name: str, *keys: str) -> Act:
    async def act(pilot: Pilot) -> None:
        knobs = pilot.app.dashboard.query_one(Knobs)
        knobs.focus()
        knobs.select(name)
        await press(*keys)(pilot)

    return act


async def palette(pilot: Pilot) -> None:
    """Its commands come when they come: until all are there and it is at rest."""
    wanted = len(list(pilot.app.get_system_commands(pilot.app.screen)))
    await pilot.press("colon")
    for _ in range(500):
        await pilot.pause(0.02)
        found = pilot.app.screen.query(CommandList)
        if found and found.first().option_count == wanted and not pilot.app.screen._show_busy:
            pilot.app.screen.query_one(CommandInput).cursor_blink = False
            await pilot.press("ctrl+home")  # with the last batch the highlight may go, or stay
            return
    raise AssertionError("The palette does not fill.")


SCENES = {
    "empty": Scene("empty"),
    "loading": Scene("loading", log="start"),
    "serving": Scene("serving", log="decode"),
    "pending": Scene("serving", "fitting", on_knob("mem-fraction-static", "minus"), "decode"),
    "verdict": Scene("crashed", log="crash"),
    "restart": Scene("crashed", "fitting", press("a", "R"), "crash"),
    "editor": Scene("serving", "fitting", on_knob("mem-fraction-static", "enter"), "decode"),
    "runs": Scene("serving", act=press("H", "down")),
    "compare": Scene("serving", act=press("H", "space", "down", "space", "c")),
    "help": Scene("serving", act=press("question_mark"), log="decode"),
    "replay": Scene("serving", act=press("H", "r")),
    "sweep": Scene("serving", act=press("W", "down", "down")),
}
# What is kept at one size and in one mode only.
MORE = {
    "no-machine": Scene("no_machine"),
    "cautioned": Scene("cautioned", log="decode"),
    "hostile": Scene("hostile"),
    "many": Scene("many"),
    "many-pending": Scene("many", "many_forecast", on_knob("mem-fraction-static", "minus")),
    "graphs": Scene("graphs", log="start"),
    "refused": Scene("serving", "refused", on_knob("mem-fraction-static", "minus")),
    "whole-verdict": Scene("crashed", act=press("v"), log="crash"),
    "launch": Scene("empty", "fitting", press("L")),
    "stop": Scene("serving", act=press("S")),
    "servers": Scene("empty", act=press("D")),
    "flags": Scene("serving", act=press("F")),
    "save": Scene("serving", "fitting", on_knob("mem-fraction-static", "minus", "ctrl+w")),
    "palette": Scene("serving", act=palette),
    "note": Scene("serving", act=press("H", "o")),
    "delete": Scene("serving", act=press("H", "down", "down", "D")),
    "cancel-sweep": Scene("serving", act=press("W", "X")),
    "seek": Scene("serving", act=press("H", "r", "t")),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scene", SCENES)
async def test_every_size_in_every_mode(fake, request, monkeypatch, scene: str, mode: str) -> None:
    for name, value in MODES[mode].items():
        monkeypatch.setenv(name, value)
    app = stage(fake, SCENES[scene], ascii_only=mode == "ascii")
    await compare(app, SCENES[scene], request, [(f"{scene}/{mode}", size) for size in SIZES])


@pytest.mark.parametrize("scene", MORE)
async def test_what_is_seen_more_seldom(fake, request, scene: str) -> None:
    sizes = (HOME, SMALL)
    await compare(stage(fake, MORE[scene]), MORE[scene], request, [(f"more/{scene}", size) for size in sizes])


@pytest.mark.parametrize("theme", ["light", "contrast"])
async def test_themes(fake, request, theme: str) -> None:
    scene = SCENES["serving"]
    await compare(stage(fake, scene, theme=theme), scene, request, [(f"more/{theme}", HOME)])


def test_ascii_pictures_are_ascii() -> None:
    texts = {path: path.read_text() for path in KEPT.glob("*/ascii-*.txt")}
    assert texts
    assert [path.name for path, text in texts.items() if not text.isascii()] == []


def test_no_picture_is_left_over() -> None:
    names = {f"{scene}/{mode}" for scene in SCENES for mode in MODES}
    names |= {f"more/{name}" for name in (*MORE, "light", "contrast")}
    kept = {str(path.relative_to(KEPT)).rpartition("-")[0] for path in KEPT.rglob("*.txt")}
    assert kept - names == set()


# ---- taking them


def stage(fake, scene: Scene, **settings: object) -> SpecdeckApp:
    state = fake.loading(Phase.GRAPHS) if scene.state == "graphs" else getattr(fake, scene.state)()
    feed = fake.FakeFeed(state, getattr(fake, scene.forecast)() if scene.forecast else None)
    feed.log = fake.written(scene.log) if scene.log else None
    app = SpecdeckApp(feed, **settings)
    # The help names the keymap's path, which is another one in every test run.
    app._environ["XDG_CONFIG_HOME"] = "/home/operator/.config"
    return app


async def compare(app: SpecdeckApp, scene: Scene, request, wanted: list[tuple[str, tuple[int, int]]]) -> None:
    """Take all, then compare: one start of the app serves every size; and at any other size it stands."""
    taken: dict[str, str] = {}
    async with app.run_test(size=wanted[0][1]) as pilot:
        await settled(pilot)
        if scene.act is not None:
            await scene.act(pilot)
        for name, size in wanted:
            await pilot.resize_terminal(*size)
            taken[f"{name}-{size[0]}x{size[1]}"] = await settled(pilot)
            draw(app, f"{name}-{size[0]}x{size[1]}")
        if app.theme == "specdeck-dark":
            screen = app.screen
            for size in ((30, 8), (1, 60), (1, 1)):
                await pilot.resize_terminal(*size)
                await settled(pilot)
            assert app.screen is screen
    if request.config.getoption("--snapshot-update"):
        for name, picture in taken.items():
            (KEPT / name).parent.mkdir(parents=True, exist_ok=True)
            (KEPT / f"{name}.txt").write_text(picture)
    wrong = [difference(name, picture) for name, picture in taken.items()]
    assert not any(wrong), "Look at the new ones and keep them with --snapshot-update:\n" + "".join(wrong)


def difference(name: str, picture: str) -> str:
    path = KEPT / f"{name}.txt"
    kept = path.read_text() if path.exists() else ""
    lines = difflib.unified_diff(kept.splitlines(True), picture.splitlines(True), f"kept {name}", f"drawn {name}")
    return "".join(list(lines)[:60])


async def settled(pilot: Pilot) -> str:
    """The picture that does not change any more."""
    before = ""
    for _ in range(40):
        await pilot.pause()
        busy = [worker for worker in pilot.app.workers if worker.group != "feed" and not worker.is_finished]
        now = "" if busy else picture_of(pilot.app)
        if now and now == before:
            return now
        before = now
    raise AssertionError("The screen does not come to rest.")


def draw(app: SpecdeckApp, name: str) -> None:
    if folder := os.environ.get("SPECDECK_PICTURES"):
        path = Path(folder) / f"{name.replace('/', '-')}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(app.export_screenshot(title=name).replace("Fira Code", "monospace"))


def picture_of(app: SpecdeckApp) -> str:
    """The cells as lines, then the styles that occur, then the runs of each line: `a3b12` is three cells of style a."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    texts: list[str] = []
    rows: list[str] = []
    letters: dict[str, str] = {}
    for strips in update.strips:
        cells = [
            (char, style_of(segment.style, char)) for strip in strips for segment in strip for char in segment.text
        ]
        texts.append("".join(char for char, _ in cells).rstrip())
        runs = [(style, len(list(run))) for style, run in groupby(style for _, style in cells)]
        rows.append(" ".join(f"{letters.setdefault(style, letter(len(letters)))}{count}" for style, count in runs))
    styles = [f"{name} {style}" for style, name in letters.items()]
    return "\n".join([*texts, "=", *styles, "=", *rows, ""])


def letter(number: int) -> str:
    high, low = divmod(number, 26)
    return (string.ascii_lowercase[high - 1] if high else "") + string.ascii_lowercase[low]


def style_of(style, char: str) -> str:
    """Of a blank only what can be seen."""
    if style is None:
        return "plain"
    attributes = [name for name in ("bold", "dim", "italic", "underline", "reverse") if getattr(style, name)]
    front = style.color.name if style.color is not None else "default"
    back = style.bgcolor.name if style.bgcolor is not None else "default"
    if char == " " and "reverse" not in attributes:
        return f"on {back}" + (" underline" if "underline" in attributes else "")
    return " ".join([*attributes, front, "on", back])
