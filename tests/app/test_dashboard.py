"""The dashboard under a pilot: what it shows of every state, and what reading keys do."""

from dataclasses import replace

import pytest
from dashboard_pilot import HOME, SMALL, text

from tui.app.dump import screen_text
from tui.app.main import SpecdeckApp
from tui.app.widgets.footer import Caption, Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.plot import Plot
from tui.app.widgets.status_line import StatusLine
from tui.app.widgets.verdict_card import VerdictCard
from tui.snapshot import State


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
