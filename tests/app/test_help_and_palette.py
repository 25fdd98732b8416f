"""Help, the palette and the operator's own keys: every key of the app is found there."""

import importlib
import pkgutil

import pytest
from dashboard_pilot import HOME, to_knob
from textual.binding import Binding
from textual.command import CommandList
from textual.dom import DOMNode

import tui.app
from tui.app.keys import groups, owners
from tui.app.main import SpecdeckApp
from tui.app.screens.dashboard import Dashboard
from tui.app.screens.dialog import Dialog, LaunchDialog, StopDialog
from tui.app.screens.knob_editor import KnobEditor
from tui.app.screens.reader import HelpScreen, Reader
from tui.app.widgets.footer import Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs


async def test_help_holds_every_binding_once_and_narrows(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=(120, 400)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        body = app.screen.query_one("#reader-body").text()
        for group in groups():
            assert group.title in body
            for binding in group.bindings:
                assert binding.description in body
        await pilot.press("slash")
        await pilot.pause()
        await pilot.press(*"restart")
        body = app.screen.query_one("#reader-body").text()
        assert "Restart with the changed knobs" in body
        assert "Search the log" not in body


def test_every_binding_has_an_id_of_its_own_and_words() -> None:
    seen: set[str] = set()
    for owner in owners():
        for binding in owner.__dict__["BINDINGS"]:
            assert isinstance(binding, Binding)
            assert binding.id
            assert binding.description
            assert binding.id not in seen
            seen.add(binding.id)


def test_no_screen_and_no_part_of_one_is_missing_in_the_help() -> None:
    for module in pkgutil.walk_packages(tui.app.__path__, "tui.app."):
        importlib.import_module(module.name)
    found, classes = set(), [DOMNode]
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if cls.__module__.startswith("tui.") and cls.__dict__.get("BINDINGS"):
            found.add(cls)
    assert found == set(owners())


async def choose(pilot, typed: str, words: str) -> None:
    """Type into the palette and take what it finds first."""
    await pilot.press("ctrl+p", *typed)
    palette, found = pilot.app.screen, pilot.app.screen.query_one(CommandList)
    for _ in range(500):
        await pilot.pause(0.02)
        if found.option_count and words in str(found.get_option_at_index(0).prompt):
            break
    await pilot.press("down", "enter") if found.highlighted is None else await pilot.press("enter")
    for _ in range(500):
        await pilot.pause(0.02)
        if pilot.app.screen is not palette and pilot.app.screen not in pilot.app.screen_stack[:-1]:
            break


async def test_the_palette_offers_what_the_screen_below_it_can_do_and_does_it(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "tp-size")
        offered = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert {binding.description for binding in Dashboard.BINDINGS} - set(offered) == {"All commands"}
        assert {binding.description for binding in Knobs.BINDINGS} <= set(offered)
        assert offered["Stop the server"] == "S"
        assert offered["Next knob"] == "down j" or offered["Next knob"] == "↓ j"
        await pilot.press("H")
        await pilot.pause()
        offered = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert offered["Delete the run"] == "D"
        assert "Stop the server" not in offered
        await choose(pilot, "write a note", "Write a note")
        await pilot.pause()
        assert type(app.screen).__name__ == "NoteEditor"


async def test_the_palette_opens_by_two_keys_and_finds_a_command_by_its_key(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("colon")
        await pilot.pause()
        assert type(app.screen).__name__ == "CommandPalette"
        await pilot.press("escape")
        await choose(pilot, "S", "Stop the server")
        await pilot.pause()
        assert isinstance(app.screen, StopDialog)


async def test_f1_explains_the_keys_of_the_screen_one_is_on_before_all_others(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("S", "f1")
        assert isinstance(app.screen, HelpScreen)
        body = app.screen.query_one("#reader-body").text()
        assert body.index("Do it") < body.index("Launch a profile")
        await pilot.press("f1", "escape")
        assert isinstance(app.screen, StopDialog)


async def test_the_operators_own_keys(fake, tmp_path) -> None:
    folder = tmp_path / "config/specdeck"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text('"server.stop" = "ctrl+x"\n')
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("S")
        assert app.screen is app.dashboard
        await pilot.press("ctrl+x")
        assert isinstance(app.screen, Dialog)
        assert ("Everywhere", "^x", "Stop the server") in app.key_entries()


async def test_a_broken_keymap_is_told_and_the_keys_stay(fake, tmp_path) -> None:
    folder = tmp_path / "config/specdeck"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text('"server.stopp" = "ctrl+x"\n')
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        assert "server.stopp" in app.dashboard.query_one(Footer).message
        await pilot.press("S")
        assert isinstance(app.screen, StopDialog)


@pytest.mark.parametrize("screen", ["dashboard", "help", "launch", "editor"])
async def test_every_key_may_be_pressed(fake, screen: str) -> None:
    """No binding of a screen raises."""
    feed = fake.FakeFeed(fake.empty() if screen == "launch" else fake.serving(), fake.fitting())
    app = SpecdeckApp(feed)
    openers = {"dashboard": [], "help": ["question_mark"], "launch": ["L"], "editor": ["enter"]}
    owners = {
        "dashboard": [Dashboard, GpuBars, Knobs],
        "help": [Reader, HelpScreen],
        "launch": [Dialog, LaunchDialog],
        "editor": [KnobEditor],
    }
    async with app.run_test(size=HOME) as pilot:
        keys = [
            key
            for owner in owners[screen]
            for b in owner.BINDINGS
            for key in b.key.split(",")
            if key not in ("q", "ctrl+z")
        ]
        for key in keys:
            await to_knob(pilot, "tp-size")
            await pilot.press(*openers[screen])
            await pilot.press(key)
            while app.screen is not app.dashboard:
                await pilot.press("escape")
        assert app.is_running
