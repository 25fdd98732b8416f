"""Stop, launch, restart and the fix of a verdict under a pilot: what is asked of the operator and of the feed."""

from dataclasses import replace

import pytest
from dashboard_pilot import HOME, text, to_knob

from tui.app.main import SpecdeckApp
from tui.app.screens.dialog import LaunchDialog, RestartDialog, StopDialog
from tui.app.screens.reader import Reader
from tui.app.widgets.footer import Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.notices import Notices
from tui.app.widgets.verdict_card import VerdictCard


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
