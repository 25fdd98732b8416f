"""The dashboard under a pilot: what keys do, and what is asked of the feed."""

import importlib
import pkgutil
from dataclasses import replace

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.dom import DOMNode

import tui.app
from tui.app.dump import screen_text
from tui.app.keys import groups, owners
from tui.app.main import SpecdeckApp
from tui.app.screens.dashboard import Dashboard
from tui.app.screens.dialog import Dialog, LaunchDialog, RestartDialog, StopDialog
from tui.app.screens.knob_editor import KnobEditor
from tui.app.screens.reader import HelpScreen, Reader
from tui.app.widgets.footer import Caption, Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.notices import Notices
from tui.app.widgets.plot import Plot
from tui.app.widgets.status_line import StatusLine
from tui.app.widgets.verdict_card import VerdictCard
from tui.snapshot import State

HOME = (120, 40)
SMALL = (80, 24)


def text(app: SpecdeckApp, widget: type) -> str:
    return app.dashboard.query_one(widget).text()


async def to_knob(pilot, name: str) -> None:
    """Put the cursor on a knob, as the operator would by arrows."""
    knobs = pilot.app.dashboard.query_one(Knobs)
    knobs.focus()
    knobs.select(name)
    await pilot.pause()


@pytest.mark.parametrize(
    "state", ["empty", "no_machine", "loading", "serving", "cautioned", "crashed", "replayed", "many", "hostile"]
)
async def test_every_state_is_drawn_at_every_size(fake, state: str) -> None:
    app = SpecdeckApp(fake.FakeFeed(getattr(fake, state)()))
    async with app.run_test(size=HOME) as pilot:
        for size in (SMALL, (200, 60), (40, 12), (1, 1), (10, 50), HOME):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert text(app, StatusLine)


async def test_at_80x24_all_bars_the_state_the_speed_and_the_verdict_are_in_sight(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(replace(fake.serving(), verdict=fake.VERDICT)))
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        screen = screen_text(app)
        for words in (*(f"GPU{i} TP{i}" for i in range(8)), "serving", "89.5 tok/s", "No room for the KV cache", "fix"):
            assert words in screen
        assert len(screen.split("\n")) == 24


async def test_news_replaces_the_picture(fake) -> None:
    feed = fake.FakeFeed(fake.loading())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        assert "loading weights" in text(app, StatusLine)
        feed.push(fake.serving())
        await pilot.pause()
        assert "serving" in text(app, StatusLine)


async def test_ordinary_news_waits_for_its_turn_and_great_news_does_not(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        app._rate = 0
        feed.push(replace(fake.serving(), gen_tok_s=11.1))
        await pilot.pause()
        assert "11.1" not in text(app, StatusLine)
        feed.push(fake.crashed())
        await pilot.pause()
        assert "failed" in text(app, StatusLine)
        assert app.dashboard.query_one(VerdictCard).display


@pytest.mark.parametrize("words", [20, 60])
async def test_a_message_is_never_cut_and_the_footer_is_one_row_again(fake, words: int) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    message = " ".join(f"word{number}" for number in range(words))
    async with app.run_test(size=SMALL) as pilot:
        app.notify(message, severity="error")
        await pilot.pause()
        assert " ".join(text(app, Footer).split()) == message
        footer = app.dashboard.query_one(Footer)
        assert footer.region.height == len(footer.text().split("\n")) > 1
        assert footer.region.bottom == 24
        await pilot.press("escape")
        assert footer.region.height == 1
        await pilot.resize_terminal(60, 24)
        app.notify("x " * 40)
        await pilot.pause()
        assert footer.region.height == 2


async def test_a_caption_stands_whole_above_the_keys(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        caption = app.dashboard.query_one(Caption)
        assert not caption.display
        for told in ("Short.", "A caption of the story that is too long for a row of this small screen, by far."):
            feed.caption = told
            feed.push(fake.serving())
            await pilot.pause()
            assert caption.region.height == 2
            assert " ".join(caption.text().replace(app.glyphs.edge, "").split()) == told
            assert "leave" in text(app, Footer)


async def test_a_frozen_screen_stands_still_until_it_goes_on(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("p")
        feed.push(fake.crashed())
        await pilot.pause()
        assert "serving" in text(app, StatusLine)
        assert "FROZEN" in text(app, StatusLine)
        await pilot.press("p")
        assert "failed" in text(app, StatusLine)


async def test_q_leaves_and_control_c_hints_first(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("ctrl+c")
        assert "server stays" in app.dashboard.query_one(Footer).message
        assert app.is_running
        await pilot.press("q")
    assert app.return_value == 0


async def test_control_c_twice_leaves(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("ctrl+c", "ctrl+c")
    assert app.return_value == 0


# ---- control


@pytest.mark.parametrize("keys", [("enter",), ("n",), ("escape",)])
async def test_stop_asks_with_cancel_focused_and_does_nothing_when_cancelled(fake, keys: tuple[str, ...]) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("S")
        assert isinstance(app.screen, StopDialog)
        assert app.focused is not None
        assert app.focused.id == "cancel"
        await pilot.press(*keys)
        assert app.screen is app.dashboard
    assert feed.asked == []


@pytest.mark.parametrize("keys", [("y",), ("tab", "enter")])
async def test_stop_is_done_when_confirmed_and_its_steps_are_told(fake, keys: tuple[str, ...]) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("S")
        await pilot.press(*keys)
        await pilot.pause(0.05)
        assert app.dashboard.query_one(Footer).message == "stopped, memory released"
    assert feed.asked == [("stop", 10.0)]


async def test_a_server_of_somebody_else_is_not_stopped(fake) -> None:
    feed = fake.FakeFeed(replace(fake.serving(), controlled=False, run=None))
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        for key in ("S", "R"):
            await pilot.press(key)
            assert app.screen is app.dashboard
            assert "not launched by specdeck" in app.dashboard.query_one(Footer).message


async def test_launch_offers_profiles_and_refuses_one_with_a_problem(fake) -> None:
    feed = fake.FakeFeed(fake.empty())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("L")
        assert isinstance(app.screen, LaunchDialog)
        await pilot.press("up", "y")
        assert "is not known" in app.screen.query_one("#body").text()
        assert isinstance(app.screen, LaunchDialog)
        await pilot.press("up", "y")
        await pilot.pause()
        assert app.screen is app.dashboard
    assert feed.asked == [("launch", "kimi-eagle3", {})]


async def test_a_takes_over_what_the_plan_says_to_try(fake) -> None:
    feed = fake.FakeFeed(fake.empty(), fake.refused())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("L", "down")
        await until_checked(pilot)
        assert app.focused.id == "accept"  # who chose with the arrows launches with enter
        assert "a takes that over" in app.screen.query_one("#body").text()
        feed.next_forecast = fake.fitting()
        await pilot.press("a")
        await until_checked(pilot)
        body = app.screen.query_one("#body").text()
        assert "mem-fraction-static  not set -> 0.85" in body
        assert "a takes" not in body
        await pilot.press("enter")
        await pilot.pause()
    assert feed.asked[-1] == ("launch", "kimi-eagle3", {"mem-fraction-static": 0.85})


async def test_what_was_taken_over_for_one_profile_is_not_for_another(fake) -> None:
    feed = fake.FakeFeed(fake.empty(), fake.refused())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("L")
        await until_checked(pilot)
        await pilot.press("a")
        assert app.screen.pending == {"mem-fraction-static": 0.85}
        await pilot.press("down")
        assert app.screen.pending == {}


async def until_checked(pilot) -> None:
    for _ in range(500):
        if pilot.app.screen.checked:
            return
        await pilot.pause(0.02)
    pytest.fail("the launch is not checked")


async def test_launch_is_not_offered_while_a_server_is_there(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("L")
        assert app.screen is app.dashboard
        assert "already" in app.dashboard.query_one(Footer).message


async def test_restart_shows_the_difference_the_forecast_and_who_would_notice(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.refused())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "mem-fraction-static")
        await pilot.press("minus", "R")
        await pilot.pause()
        assert isinstance(app.screen, RestartDialog)
        body = app.screen.query_one("#body").text()
        for words in ("0.85 -> 0.84", "12 running, 3 queued", "Will not start", "/models/Kimi-K2.5"):
            assert words in body
        await pilot.press("y")
        assert isinstance(app.screen, RestartDialog)
        assert "y once more" in app.screen.query_one("#body").text()
        assert app.focused is not None
        assert app.focused.id == "cancel"
        await pilot.press("y")
        await pilot.pause()
    assert feed.asked[-2:] == [("restart", {"mem-fraction-static": 0.84}), ("relaunched",)]


async def test_a_feed_that_fails_is_told_in_words(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    feed.failure = RuntimeError("the recording is cut")
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        assert "the recording is cut" in app.dashboard.query_one(Footer).message


async def test_one_key_applies_the_fix_of_a_verdict(fake) -> None:
    feed = fake.FakeFeed(fake.crashed(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("a")
        await pilot.pause()
        assert "not set → 0.85" in text(app, Knobs)
        assert "plan fits" in text(app, Notices)
        assert text(app, GpuBars).count("plan") == 8
        await pilot.press("R")
        assert isinstance(app.screen, RestartDialog)
        await pilot.press("y")
        await pilot.pause()
        await pilot.pause()
    assert ("restart", {"mem-fraction-static": 0.85}) in feed.asked


async def test_a_verdict_put_aside_comes_back_with_v_or_when_it_changes(fake) -> None:
    feed = fake.FakeFeed(fake.crashed())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        card = app.dashboard.query_one(VerdictCard)
        await pilot.press("escape")
        assert not card.display
        feed.push(fake.crashed())
        await pilot.pause()
        assert not card.display
        await pilot.press("v")
        assert isinstance(app.screen, Reader)
        await pilot.press("escape")
        assert card.display
        await pilot.press("escape")
        feed.push(replace(fake.crashed(), verdict=replace(fake.VERDICT, title="Another")))
        await pilot.pause()
        assert card.display


# ---- read-only


async def test_read_only_hides_control_everywhere(fake) -> None:
    feed = fake.FakeFeed(fake.crashed(), fake.fitting(), read_only=True)
    app = SpecdeckApp(feed)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        footer = text(app, Footer)
        for word in ("launch", "restart", "stop", "apply"):
            assert word not in footer
        assert not [words for _, _, words in app.key_entries() if words in ("Stop the server", "Launch a profile")]
        assert not [c for c in app.get_system_commands(app.screen) if c.title == "Stop the server"]
        await pilot.press("S", "R", "L", "a")
        assert app.screen is app.dashboard
        await to_knob(pilot, "tp-size")
        await pilot.press("plus", "enter")
        assert app.screen is app.dashboard
        assert "changed" not in text(app, Knobs)
    assert feed.asked == []


# ---- knobs


async def test_pending_knobs_show_ghosts_and_undo_takes_them_away(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "cuda-graph-max-bs")
        await pilot.press("plus")
        await pilot.pause()
        assert "128 → 256" in text(app, Knobs)
        assert "1 changed" in text(app, Knobs)
        assert text(app, GpuBars).count("plan") == 8
        await pilot.press("plus", "u")
        await pilot.pause()
        assert "128 → 256" in text(app, Knobs)
        await pilot.press("u")
        await pilot.pause()
        assert "→" not in text(app, Knobs)
        assert "plan" not in text(app, GpuBars)


async def test_a_small_screen_shows_the_ghost_of_the_tightest_gpu_only(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving(), fake.fitting()))
    async with app.run_test(size=SMALL) as pilot:
        await to_knob(pilot, "cuda-graph-max-bs")
        await pilot.press("plus")
        await pilot.pause()
        lines = text(app, GpuBars).split("\n")
        assert [i for i, line in enumerate(lines) if "plan" in line] == [4]
        assert len(lines) == 9


async def test_a_knob_stepped_back_is_no_longer_pending(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "speculative-num-steps")
        await pilot.press("plus", "minus")
        assert "changed" not in text(app, Knobs)
        await pilot.press("plus", "plus", "d")
        assert "changed" not in text(app, Knobs)


async def test_a_knob_is_typed_and_nonsense_is_refused_in_words(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "mem-fraction-static")
        await pilot.press("enter")
        await pilot.press(*"0.x", "enter")
        assert "needs a number" in app.screen.query_one("#body").text()
        await pilot.press("backspace", *"88", "enter")
        await pilot.pause()
        assert app.screen is app.dashboard
        assert "0.85 → 0.88" in text(app, Knobs)
    assert feed.asked[-1] == ("forecast", {"mem-fraction-static": 0.88})


async def test_an_empty_value_removes_the_flag_and_escape_changes_nothing(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), fake.fitting())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "tp-size")
        await pilot.press("enter", "9", "escape")
        assert "changed" not in text(app, Knobs)
        await pilot.press("enter", "backspace", "enter")
        await pilot.pause()
    assert feed.asked[-1] == ("forecast", {"tp-size": None})


async def test_another_run_forgets_what_was_pending(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await to_knob(pilot, "tp-size")
        await pilot.press("plus")
        feed.push(replace(fake.loading(), run="another"))
        await pilot.pause()
        assert "changed" not in text(app, Knobs)


# ---- reading


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


async def test_where_each_gib_comes_from(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        app.dashboard.query_one(GpuBars).focus()
        await pilot.press("j", "j", "i")
        body = app.screen.query_one("#reader-body").text()
        assert "GPU-00000002" in body
        assert "Load weight end, mem usage, target" in body
        assert "measured" in body


async def test_the_cursor_moves_by_arrows_and_letters(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.many()))
    async with app.run_test(size=HOME) as pilot:
        bars = app.dashboard.query_one(GpuBars)
        bars.focus()
        await pilot.press("down", "j", "up", "k", "j")
        assert bars.selected is bars._bars[1]
        await pilot.press("G")
        assert bars.selected is bars._bars[-1]
        assert "of 64" in bars.text()
        await pilot.press("g")
        assert bars.selected is bars._bars[0]


async def test_the_plot_is_built_again_only_when_something_changed(fake, monkeypatch) -> None:
    import tui.app.widgets.plot as plot_module

    built = []
    monkeypatch.setattr(plot_module, "chart", lambda *a: built.append(a) or [])
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        before = len(built)
        app.dashboard.query_one(Plot).show(fake.serving())
        app.dashboard.query_one(Plot).show(fake.serving())
        assert len(built) == before
        app.dashboard.query_one(Plot).show(replace(fake.serving(), points=fake.curve(60)))
        assert len(built) == before + 1


async def test_copy_goes_to_the_clipboard_and_the_large_to_a_file(fake, tmp_path) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        app.dashboard.query_one(GpuBars).focus()
        await pilot.press("y")
        assert "GPU7 TP7" in app.clipboard
        app.copy_text("x" * 100_000)
        assert "saved as" in app.dashboard.query_one(Footer).message
    assert (tmp_path / "state/specdeck/screens/copied.txt").read_text() == "x" * 100_000


async def test_a_dump_is_text_and_svg(fake, tmp_path) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("ctrl+s")
    saved = {path.suffix: path.read_text() for path in (tmp_path / "state/specdeck/screens").iterdir()}
    assert "89.5 tok/s" in saved[".txt"]
    assert saved[".svg"].startswith("<svg")


async def test_a_dump_of_a_dialog_shows_what_is_around_it_too(fake, tmp_path) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("S")
        await pilot.pause()
        text = screen_text(app)
        assert "Stop the server?" in text
        assert "GPU0 TP0" in text


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


async def test_stopped_servers_offer_launch_and_running_ones_stop(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        assert "stop" in text(app, Footer)
        assert "launch" not in text(app, Footer)
        feed.push(replace(fake.empty(), state=State.STOPPED))
        await pilot.pause()
        assert "launch" in text(app, Footer)
        assert "stop" not in text(app, Footer)


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
