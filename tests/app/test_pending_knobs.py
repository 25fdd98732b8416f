"""Knobs changed on the dashboard: ghosts, typing, undo."""

from dataclasses import replace

from dashboard_pilot import HOME, SMALL, text, to_knob

from tui.app.main import SpecdeckApp
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs


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
