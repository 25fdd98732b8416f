"""The history on the screen: order, filter, marks, notes, deletion, and what is asked of the feed."""

import pytest

from tui.app.glyphs import UNICODE
from tui.app.main import SpecdeckApp
from tui.app.run_table import SORTS, in_order, matching, row_line, speeds
from tui.app.screens.compare import CompareScreen
from tui.app.screens.reader import Reader
from tui.app.screens.runs import DeleteDialog, NoteEditor, RunsScreen
from tui.app.screens.sweep import SweepScreen
from tui.app.widgets.footer import Footer
from tui.app.widgets.runs_table import RunsTable

HOME, SMALL = (120, 40), (80, 24)


def table(app: SpecdeckApp) -> RunsTable:
    return app.screen.query_one(RunsTable)


def message(app: SpecdeckApp) -> str:
    return app.screen.query_one(Footer).message


@pytest.fixture
def feed(fake):
    return fake.FakeFeed(fake.serving())


async def opened(pilot) -> None:
    await pilot.pause()
    await pilot.press("H")
    await settled(pilot)


async def settled(pilot) -> None:
    """Until what the last key asked of the history is done and drawn."""
    for _ in range(3):
        await pilot.pause()


@pytest.mark.parametrize("size", [HOME, SMALL])
async def test_the_table_tells_outcome_speed_and_damage(feed, size) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        assert isinstance(app.screen, RunsScreen)
        rows = table(app).text().split("\n")
        assert "4" in rows[0]
        assert "kimi-base" in rows[2]  # the baseline first, then the newest
        assert "B" in rows[2][:4]
        assert "kimi-eagle3" in rows[3]
        for words in ("serving", "116 707", "120@1", "2.31"):
            assert words in rows[3]
        assert "kv-no-room" in rows[4]
        assert "damaged" in rows[5]
        assert "–" in rows[5]
        assert all(len(row) <= size[0] for row in rows)


async def test_the_details_follow_the_cursor(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        details = app.screen.query_one("#runs-details")
        assert "the one to beat" in details.text()
        await pilot.press("j")
        await pilot.pause()
        assert "mem-fraction-static unset -> 0.85" in details.text()
        await pilot.press("G")
        await pilot.pause()
        assert "command.json is missing" in details.text()


async def test_sorting_keeps_the_cursor_on_its_run(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("j")
        before = table(app).selected
        for _ in SORTS:
            await pilot.press("s")
            assert table(app).selected == before
        assert table(app).order == "time"


async def test_a_filter_narrows_and_escape_takes_it_away(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("slash", *"eagle3")
        await pilot.pause()
        assert "2 of 4" in table(app).text()
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert isinstance(app.screen, RunsScreen)
        assert "of 4" not in table(app).text()
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.dashboard


async def test_pinning_and_unpinning(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("b")
        await settled(pilot)
        assert feed.history.asked == [("pin", "2026-11-29T11-31-12_kimi-base", False)]
        assert "no baseline any more" in message(app)
        await pilot.press("b")
        await settled(pilot)
        assert feed.history.asked[-1] == ("pin", "2026-11-29T11-31-12_kimi-base", True)


async def test_a_note_is_written_and_escape_leaves_it(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(app.screen, NoteEditor)
        await pilot.press("escape")
        await pilot.pause()
        assert feed.history.asked == []
        await pilot.press("o")
        await pilot.pause()
        await pilot.press(*"!!", "enter")
        await settled(pilot)
        assert feed.history.asked == [("annotate", "2026-11-29T11-31-12_kimi-base", "the one to beat!!")]
        assert "the one to beat!!" in app.screen.query_one("#runs-details").text()


@pytest.mark.parametrize("keys", [("enter",), ("n",), ("escape",)])
async def test_deleting_asks_first_and_cancel_has_the_focus(feed, keys) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("D")
        await pilot.pause()
        assert isinstance(app.screen, DeleteDialog)
        assert app.focused.id == "cancel"
        await pilot.press(*keys)
        await settled(pilot)
        assert feed.history.asked == []
        assert isinstance(app.screen, RunsScreen)


async def test_deleting_removes_the_row_and_a_refusal_is_told(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        feed.history.refusal = "Cannot remove it: permission denied."
        await pilot.press("D", "y")
        await settled(pilot)
        assert "permission denied" in message(app)
        feed.history.refusal = None
        await pilot.press("D", "y")
        await settled(pilot)
        assert "kimi-base" not in table(app).text()


async def test_a_run_that_lives_is_not_deleted(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("j", "D")
        await pilot.pause()
        assert isinstance(app.screen, RunsScreen)
        assert "still running" in message(app)


async def test_a_read_only_dashboard_changes_nothing(fake) -> None:
    feed = fake.FakeFeed(fake.serving(), read_only=True)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        for key in ("b", "o", "D"):
            await pilot.press(key)
            await pilot.pause()
            assert "read-only" in message(app)
        assert feed.history.asked == []


async def test_marked_runs_are_compared_in_the_order_of_marking(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("space", "space", "c")
        await settled(pilot)
        base, eagle = "2026-11-29T11-31-12_kimi-base", "2026-11-29T12-20-02_kimi-eagle3"
        assert feed.history.asked == [("compare", base, eagle)]
        assert isinstance(app.screen, CompareScreen)


async def test_one_run_alone_asks_for_another(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("c")
        await settled(pilot)
        assert "Mark a second run" in message(app)


async def test_details_can_be_read(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, Reader)
        assert "profile and knobs" in app.screen.query_one("#reader-body").text()


async def test_a_store_that_cannot_be_read_is_told(feed, monkeypatch) -> None:
    async def broken(limit=None):
        raise OSError("Cannot read the runs: permission denied.")

    monkeypatch.setattr(feed.history, "runs", broken)
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        assert "permission denied" in message(app)
        assert "No runs yet" in table(app).text()


async def test_many_runs_are_all_there_in_the_end(fake, feed) -> None:
    feed.history.rows = tuple(fake.RunRow(name=f"2026-11-29T00-00-00_r+{i}", profile="r") for i in range(250))
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        assert "250" in table(app).text().split("\n")[0]
        await pilot.press("G")
        assert table(app).text().count("r  ") > 20


async def test_the_sweeps_are_one_key_away(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        await opened(pilot)
        await pilot.press("W")
        await settled(pilot)
        assert isinstance(app.screen, SweepScreen)
        await pilot.press("escape")
        await settled(pilot)
        assert isinstance(app.screen, RunsScreen)


async def test_every_key_of_the_runs_may_be_pressed(feed) -> None:
    app = SpecdeckApp(feed)
    async with app.run_test(size=HOME) as pilot:
        for owner in (RunsScreen, RunsTable):
            for binding in owner.BINDINGS:
                for key in binding.key.split(","):
                    await opened(pilot)
                    await pilot.press(key)
                    await pilot.pause()
                    while app.screen is not app.dashboard:
                        await pilot.press("escape")
                        await pilot.pause()
        assert app.is_running


@pytest.mark.parametrize("size", [SMALL, HOME, (200, 60), (20, 5)])
async def test_hostile_words_stay_words(fake, size) -> None:
    evil = "\x1b[31mred\x07[bold]x[/]"
    rows = (fake.RunRow(name=evil, profile=evil, outcome=evil, note=evil, changed=evil, verdict=evil, damaged=evil),)
    feed = fake.FakeFeed(fake.serving())
    feed.history.rows = rows
    app = SpecdeckApp(feed)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        assert "\x1b" not in table(app).text() + app.screen.query_one("#runs-details").text()


def test_orders_put_what_is_not_known_last(fake) -> None:
    rows = [row for row in fake.RUNS if not row.baseline]
    for by in ("tok/s", "accept length", "KV tokens", "free GiB", "time to ready"):
        assert in_order(rows, by)[0].best_tok_s == 131.0
    assert in_order(fake.RUNS, "tok/s")[0].baseline


def test_every_word_must_be_found(fake) -> None:
    assert [row.profile for row in matching(fake.RUNS, "eagle3 0.85")] == ["kimi-eagle3"]
    assert matching(fake.RUNS, "baseline")[0].profile == "kimi-base"
    assert matching(fake.RUNS, "eagle3 nowhere") == []


def test_speeds_keep_the_smallest_and_the_largest_batch(fake) -> None:
    row = fake.RunRow(name="x", speeds=((1, 89.51), (8, 402.4), (32, 1200.0)))
    assert speeds(row, 2) == "89.5@1 1200@32"
    assert speeds(row, 3) == "89.5@1 402@8 1200@32"
    assert speeds(fake.RunRow(name="x")) == "–"


def test_a_row_never_writes_beyond_its_width(fake) -> None:
    for width in (80, 100, 120, 200):
        for row in fake.RUNS:
            assert sum(len(text) for text, _ in row_line(row, width, UNICODE, True, True)) <= width
