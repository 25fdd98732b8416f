"""A recording on the screen: keys that play it, and no control."""

from dataclasses import replace

import pytest

from tui.app.main import SpecdeckApp
from tui.app.screens.replay import ReplayDashboard, SeekDialog
from tui.app.screens.runs import RunsScreen
from tui.app.widgets.footer import Footer
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.status_line import StatusLine
from tui.app.widgets.verdict_card import VerdictCard

HOME = (120, 40)


@pytest.fixture
def feed(fake):
    made = fake.FakeFeed(replace(fake.replayed(), playback="10x, 3:20 of 18:05"), read_only=True)
    made.playback = fake.FakePlayback()
    return made


def message(app: SpecdeckApp) -> str:
    return app.screen.query_one(Footer).message


async def test_the_position_is_told_and_no_control_is_offered(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, ReplayDashboard)
        assert "10x, 3:20 of 18:05" in app.screen.query_one(StatusLine).text()
        keys = app.screen.query_one(Footer).text()
        assert "space pause" in keys
        assert "stop" not in keys
        for key in ("S", "R", "L", "a"):
            await pilot.press(key)
            await pilot.pause()
            assert app.screen is app.dashboard


async def test_keys_play_whatever_has_the_focus(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        for _ in range(3):
            await pilot.press("space", "full_stop", "comma", "right_square_bracket")
            await pilot.press("tab")
        once = ["pause", ("step", True), ("step", False), ("jump", True)]
        assert feed.playback.asked == once * 3
        await pilot.press("greater_than_sign", "greater_than_sign", "less_than_sign")
        assert feed.playback.speed == 2.0
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert "no earlier" in message(app)


async def test_seeking_to_a_time_or_a_place(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(app.screen, SeekDialog)
        await pilot.press(*"90%", "space", "enter")
        await pilot.pause()
        assert feed.playback.asked == [("seek", "90%")]
        await pilot.press("t")
        await pilot.pause()
        await pilot.press("up", "enter")
        await pilot.pause()
        kind, where = feed.playback.asked[-1]
        assert kind == "seek"
        assert float(where.strip("+s")) == pytest.approx(400.0, abs=0.01)
        await pilot.press("t")
        await pilot.pause()
        await pilot.press(*"nowhere", "enter")
        await pilot.pause()
        await pilot.pause()
        assert "No 'nowhere'" in message(app)


async def test_escape_of_the_dialog_stays(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        await pilot.press("t")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.dashboard
        assert feed.playback.asked == []


async def test_q_leaves_a_replay(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.press("q")
    assert app.return_value == 0


async def test_a_replay_from_the_history_goes_back_to_it(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        await pilot.press("H")
        await pilot.pause()
        await pilot.pause()
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(app.screen, ReplayDashboard)
        assert feed.history.asked == [("replay", "2026-11-29T11-31-12_kimi-base")]
        assert "18:05" in app.screen.query_one(StatusLine).text()
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, RunsScreen)
        assert app.is_running


async def test_a_replay_inside_a_dashboard_that_controls_changes_nothing(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        app.push_screen(ReplayDashboard(feed.history.replay(fake.RUNS[0].name), nested=True))
        await pilot.pause()
        played = app.screen
        knobs = played.query_one(Knobs)
        knobs.focus()
        for key in ("plus", "minus", "enter", "d", "u", "ctrl+r", "a", "L", "R", "S", "B", "K", "F", "ctrl+w"):
            await pilot.press(key)
            await pilot.pause()
            assert app.screen is played, key
            assert played._pending == {}, key
        assert "restart" not in played.query_one(Footer).text()
        assert "finds" not in knobs.text()
        assert feed.asked == []


async def test_a_recording_of_a_crash_offers_no_fix(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        recorded = fake.FakeFeed(fake.crashed(), read_only=True)
        recorded.playback = fake.FakePlayback()
        app.push_screen(ReplayDashboard(recorded, nested=True))
        await pilot.pause()
        await pilot.pause()
        card = app.screen.query_one(VerdictCard).text()
        assert card
        assert "apply" not in card
        assert "apply" not in app.screen.query_one(Footer).text()


async def test_a_damaged_run_is_not_played(fake) -> None:
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await pilot.pause()
        await pilot.press("H")
        await pilot.pause()
        await pilot.pause()
        await pilot.press("G", "r")
        await pilot.pause()
        assert isinstance(app.screen, RunsScreen)
        assert "is damaged" in message(app)


async def test_the_keys_of_a_replay_are_in_the_palette(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME):
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Pause the replay, or go on", "Go to a time or a place", "Next phase, mark or crash"} <= titles
