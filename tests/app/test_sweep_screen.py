"""A sweep on the screen: what is told of each case, the time left, cancelling, resuming, and what breaks."""

from dataclasses import replace

import pytest

from tui.app.glyphs import UNICODE
from tui.app.main import SpecdeckApp
from tui.app.screens.compare import CompareScreen
from tui.app.screens.dialog import ConfirmDialog
from tui.app.screens.reader import Reader
from tui.app.screens.replay import ReplayDashboard
from tui.app.screens.sweep import SweepScreen
from tui.app.sweep_table import head_lines, in_order, row_line
from tui.app.sweepapp import SweepApp
from tui.app.text import width_of
from tui.app.widgets.footer import Footer
from tui.app.widgets.sweep_cases import SweepCases

HOME, SMALL = (120, 40), (80, 24)


@pytest.fixture
def feed(fake):
    return fake.FakeFeed(fake.serving())


async def settled(pilot) -> None:
    for _ in range(4):
        await pilot.pause()


async def opened(pilot) -> None:
    await pilot.pause()
    await pilot.press("W")
    await settled(pilot)


def shown(app: SpecdeckApp) -> str:
    screen = app.screen
    parts = [screen.query_one(name).text() for name in ("#sweep-head", "#sweep-cases", "#sweep-details", "#footer")]
    return "\n".join(parts)


def message(app: SpecdeckApp) -> str:
    return app.screen.query_one(Footer).message


def words(lines) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


@pytest.mark.parametrize("size", [HOME, SMALL], ids=["120x40", "80x24"])
async def test_every_case_is_told(feed, size) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        assert isinstance(app.screen, SweepScreen)
        text = shown(app)
        for told in (
            "running", "5 of 8 cases", "elapsed 34m14s", "left about 15m30s", "budget 2h00m, 1h25m of it left",
            "now", "6 of 8: kimi-eagle3 speculative-num-steps=3: loading weights", "120.5 tok/s at decode-1",
            "82.0", "89.5", "2.31", "skipped    kimi-eagle3 mem-frac", "Will not start", "capture-oom", "planned",
            "will skip", "the best", "-32%", "X stop the sweep",
        ):  # fmt: skip
            assert told in text, told
        assert all(width_of(row) <= size[0] for row in text.split("\n"))


async def test_whether_speculation_pays_is_told_where_there_is_room(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        assert "Batch 1: pays, +35%" in shown(app)
        assert "Batch 8: does not pay" in shown(app)


async def test_ranked_and_as_asked(feed, fake) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        cases = app.screen.query_one(SweepCases)
        await pilot.press("j")
        before = cases.selected
        await pilot.press("s")
        await settled(pilot)
        rows = cases.text().split("\n")
        assert [row[4:6].strip() for row in rows[2:5]] == ["", "", ""] or "0.85" in rows[1]
        assert [f"{place}" in rows[place][:7] for place in (1, 2, 3)] == [True] * 3
        assert cases.selected == before
        assert [row.place for row in in_order(fake.SWEEP.rows, True)[:4]] == [1, 2, 3, None]


async def test_news_are_shown_and_the_cursor_stays(feed, fake) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("G")
        now = feed.history.sweeps.all[fake.SWEEP.name]
        rows = tuple(replace(row, words="capturing CUDA graphs, 2 s") if row.state == "running" else row
                     for row in now.rows)  # fmt: skip
        feed.history.sweeps.all[fake.SWEEP.name] = replace(now, rows=rows, elapsed_s=2056.0)
        app.screen._look()
        await settled(pilot)
        assert "capturing CUDA graphs" in shown(app)
        assert app.screen.query_one(SweepCases).selected.title.endswith("=0.7")


@pytest.mark.parametrize("keys", [("enter",), ("n",), ("escape",)])
async def test_cancelling_asks_first_and_cancel_has_the_focus(feed, keys) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("X")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmDialog)
        assert app.focused.id == "cancel"
        await pilot.press(*keys)
        await settled(pilot)
        assert feed.history.sweeps.asked == []
        assert isinstance(app.screen, SweepScreen)


async def test_cancelling_and_a_refusal(feed, fake) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("X", "y")
        await settled(pilot)
        assert feed.history.sweeps.asked == [("cancel", fake.SWEEP.name)]
        assert "is being stopped" in message(app)
        feed.history.sweeps.refusal = "The sweep is not running."
        await pilot.press("X", "y")
        await settled(pilot)
        assert "not running" in message(app)


async def test_an_older_sweep_goes_on(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("R")
        await settled(pilot)
        assert "Only an interrupted sweep" in message(app)
        await pilot.press("left_square_bracket")
        assert "no newer sweep" in message(app)
        await pilot.press("right_square_bracket")
        await settled(pilot)
        assert "2026-11-28T09-00-00  interrupted" in shown(app)
        assert "2 of 2 sweeps" in shown(app)
        await pilot.press("X")
        await settled(pilot)
        assert isinstance(app.screen, SweepScreen)
        await pilot.press("R")
        await settled(pilot)
        assert feed.history.sweeps.asked == [("resume", "2026-11-28T09-00-00")]
        assert "goes on in the background" in message(app)


async def test_a_read_only_dashboard_watches(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), read_only=True)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        assert "X stop" not in shown(app)
        await pilot.press("X")
        await settled(pilot)
        assert "read-only" in message(app)
        assert feed.history.sweeps.asked == []


async def test_the_run_of_a_case(feed, fake) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, Reader)
        await pilot.press("escape", "c")
        await settled(pilot)
        assert isinstance(app.screen, CompareScreen)
        assert feed.history.asked == [("compare", fake.RUNS[2].name, fake.RUNS[0].name)]
        await pilot.press("escape", "r")
        await settled(pilot)
        assert isinstance(app.screen, ReplayDashboard)
        await pilot.press("q")
        await settled(pilot)
        await pilot.press("j", "j", "enter")
        await settled(pilot)
        assert "was not launched" in message(app)
        await pilot.press("j", "c")
        await settled(pilot)
        assert "This is the best" in message(app)


async def test_the_table_is_copied_whole(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        await pilot.press("y")
        assert "mem-fraction-static=0.93" in app.clipboard
        assert app.clipboard.count("\n") == 8


async def test_no_sweep_says_how_to_begin_one(feed) -> None:
    feed.history.sweeps.all = {}
    app = SpecdeckApp(feed)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        assert "specdeck sweep PROFILE --vary" in shown(app)
        for key in ("X", "R", "enter", "r", "c", "s", "y", "right_square_bracket", "G", "pagedown"):
            await pilot.press(key)
        assert isinstance(app.screen, SweepScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.dashboard


async def test_a_damaged_file_and_a_folder_that_cannot_be_read(feed, fake, monkeypatch) -> None:
    problem = "The sweep x cannot be read: x.json is not JSON."
    feed.history.sweeps.all = {"x": fake.SweepView(name="x", state="damaged", problem=problem)}
    app = SpecdeckApp(feed)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        assert "is not JSON" in shown(app)

        async def broken() -> tuple[str, ...]:
            raise OSError("Cannot read the sweeps: permission denied.")

        monkeypatch.setattr(feed.history.sweeps, "names", broken)
        app.screen._look()
        await settled(pilot)
        assert "permission denied" in message(app)


@pytest.mark.parametrize("size", [SMALL, HOME, (200, 60), (20, 5)])
async def test_hostile_words_stay_words(fake, size) -> None:
    evil = "\x1b[31mred\x07[bold]x[/]" * 20
    row = fake.SweepRow(title=evil, state="failed", words=evil, run=evil, case=evil, speeds=(1.0,), place=1)
    feed = fake.FakeFeed(fake.serving())
    feed.history.sweeps.all = {
        evil: replace(
            fake.SWEEP, name=evil, best=evil, saved=evil, economy=(evil,), rows=(row, replace(row, place=None))
        )
    }
    app = SpecdeckApp(feed)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        assert "\x1b" not in shown(app)


def test_a_budget_that_will_not_do_is_said(fake) -> None:
    tight = replace(fake.SWEEP, budget_s=2400.0)
    assert "not all cases will be tried" in words(head_lines(tight, (1, 1), 120))
    assert "used up" in words(head_lines(replace(fake.SWEEP, budget_s=2000.0), (1, 1), 120))
    first = replace(fake.SWEEP, left_s=None)
    assert "not known before a case has ended" in words(head_lines(first, (1, 1), 120))


def test_titles_that_differ_at_the_end_stay_apart(fake) -> None:
    long = "kimi-k2.5-eagle3 mem-fraction=0.85 steps=3 topk={} draft={}"
    rows = tuple(fake.SweepRow(title=long.format(*pair), state="planned") for pair in ((1, 4), (4, 8)))
    view = replace(fake.SWEEP, rows=rows)
    for width in (80, 120):
        for row, told in zip(rows, ("topk=1 draft=4", "topk=4 draft=8"), strict=True):
            assert told in words([row_line(view, row, width, UNICODE, False)])
    endless = fake.SweepRow(title="x" * 200, state="planned")
    assert "x…" in words([row_line(replace(view, rows=(endless,)), endless, 80, UNICODE, False)])


def test_a_row_never_writes_beyond_its_width(fake) -> None:
    for width in (60, 80, 100, 120, 200):
        for row in fake.SWEEP.rows:
            line = row_line(fake.SWEEP, row, width, UNICODE, True)
            assert sum(width_of(text) for text, _ in line) <= width


async def test_a_sweep_on_top_leaves_the_program(feed, fake) -> None:
    app = SweepApp(fake.FakeFeed(fake.serving(), read_only=True), "2026-11-28T09-00-00", may_control=True)
    async with app.run_test(size=HOME) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, SweepScreen)
        assert "2026-11-28T09-00-00  interrupted" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.dashboard
        await pilot.press("W")
        await settled(pilot)
        await pilot.press("q")
        await pilot.pause()
        assert app.is_running  # opened from the dashboard, it goes back there
        await pilot.press("W", "R")
        await settled(pilot)
        assert "read-only" not in message(app)  # though the server behind may not be touched
    app = SweepApp(feed, fake.SWEEP.name, may_control=False)
    async with app.run_test(size=HOME) as pilot:
        await settled(pilot)
        assert "X stop" not in shown(app)
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert app.return_value == 0
