"""The log pane on a real file and a real index, driven by keys."""

import asyncio
import os
import time
from dataclasses import replace

import pytest
from log_screen import STAMP, numbered, traceback

from tui.app.main import SpecdeckApp
from tui.app.widgets.log_pane import LogPane


async def test_without_a_log_it_says_what_to_do(fake) -> None:
    async with SpecdeckApp(fake.FakeFeed(fake.empty())).run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = pilot.app.dashboard.query_one(LogPane).text()
        assert "L launches" in text
        assert "attach --log" in text


async def test_an_empty_log_is_awaited_and_its_first_line_shown(open_screen, log) -> None:
    async with open_screen() as screen:
        assert "empty so far" in screen.pane.text()
        log.write("hello")
        await screen.tick()
        assert screen.rows == [" hello"]


async def test_it_opens_at_the_end_and_follows(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        assert "FOLLOW" in screen.title
        assert screen.rows[-1] == " line 499"
        log.write("line 500")
        await screen.tick()
        screen.pane._window._jumped_at -= 1
        await screen.tick()
        assert screen.rows[-1] == " line 500"


async def test_new_lines_fill_the_room_below_before_the_page_jumps(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        screen.pane._window._jumped_at -= 1
        log.write("a")
        await screen.tick()
        top = screen.rows[0]
        room = screen.pane.size.height - 1
        assert len(screen.rows) < room
        for _ in range(room - len(screen.rows)):
            log.write("b")
            await screen.tick()
        assert screen.rows[0] == top
        assert len(screen.rows) == room


async def test_a_flood_is_held_back_for_a_moment_and_then_shown(open_screen, log) -> None:
    log.write(*numbered(1, 100))
    async with open_screen() as screen:
        log.write(*numbered(100, 60_000))
        await screen.tick()
        screen.pane._window._jumped_at -= 1
        await screen.tick()
        assert screen.rows[-1] == " line 59999"


async def test_going_up_leaves_the_end_and_counts_what_is_new(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        await screen.press("k")
        assert screen.cursor == "▸line 498"
        before = screen.rows
        log.write(*numbered(500, 623))
        await screen.tick()
        screen.feed.push(replace(screen.feed.snapshot, at=screen.feed.snapshot.at + 1))
        screen.pilot.app.dashboard.draw()
        assert "PAUSED +123 new" in screen.title
        assert screen.rows == before
        await screen.press("G")
        assert "FOLLOW" in screen.title
        assert screen.rows[-1] == " line 622"
        assert screen.cursor is None


@pytest.mark.parametrize("back", ["f", "end", "G"])
async def test_ways_back_to_the_end(open_screen, log, back: str) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        await screen.press("g")
        assert screen.cursor == "▸line 1"
        await screen.press(back)
        assert screen.rows[-1] == " line 499"


async def test_pages_go_there_and_back(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        await screen.press("g")
        first = screen.rows
        await screen.press("space")
        second = screen.rows
        assert second[0].lstrip("▸ ") == first[-1].lstrip("▸ ")
        await screen.press("b")
        assert [row.lstrip("▸ ") for row in screen.rows] == [row.lstrip("▸ ") for row in first]


async def test_paging_down_to_the_end_follows_again(open_screen, log) -> None:
    log.write(*numbered(1, 60))
    async with open_screen() as screen:
        await screen.press("g", *["pagedown"] * 8)
        assert "FOLLOW" in screen.title


async def test_j_moves_the_cursor_and_then_the_page(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        await screen.press("g", *["j"] * 30)
        assert screen.cursor == "▸line 31"
        await screen.press(*["k"] * 30)
        assert screen.cursor == "▸line 1"
        assert screen.rows[0] == "▸line 1"


async def test_long_lines_are_cut_and_scrolled_sideways(open_screen, log) -> None:
    log.write("a" * 100 + "b" * 100 + "c" * 100)
    async with open_screen() as screen:
        row = screen.rows[0]
        assert row.endswith("…")
        assert "c" not in row
        await screen.press(*["right"] * 12)
        assert screen.rows[0].startswith(" …bbb")
        assert screen.rows[0].endswith("c")
        await screen.press(*["left"] * 12)
        assert screen.rows[0] == row


async def test_wrapping_shows_all_of_a_line(open_screen, log) -> None:
    log.write("start", "x" * 1000, "end")
    async with open_screen() as screen:
        await screen.press("w")
        assert sum(row.count("x") for row in screen.rows) == 1000
        assert screen.rows[-1] == " end"
        await screen.press("w")
        assert len(screen.rows) == 3


async def test_a_line_higher_than_the_pane_can_be_read_to_its_end(open_screen, log) -> None:
    log.write("start", "".join(f"<{i}>" for i in range(1500)), "end")
    async with open_screen() as screen:
        await screen.press("w", "g")
        assert "<0>" in screen.pane.text()
        await screen.press(*["j"] * 60)
        assert "<1499>" in screen.pane.text()


async def test_wide_glyphs_never_pass_the_edge(open_screen, log) -> None:
    from tui.app.text import width_of

    log.write("漢字" * 200, "e\u0301" * 300, "😀" * 100)
    async with open_screen(size=(80, 24)) as screen:
        for keys in ("right", "right", "w"):
            assert all(width_of(row) <= 80 for row in screen.rows)
            await screen.press(keys)
        assert all(width_of(row) <= 80 for row in screen.rows)


async def test_a_progress_bar_shows_its_last_state_only(open_screen, log) -> None:
    log.write("\rLoading:   0%|\rLoading:  50%|\rLoading: 100%|##|", end="")
    async with open_screen() as screen:
        assert screen.rows == [" Loading: 100%|##|"]
        log.write("\rLoading: done", end="")
        await screen.tick()
        assert screen.rows == [" Loading: done"]


async def test_hostile_lines_are_text(open_screen, log) -> None:
    log.write("\x1b]52;c;ZXZpbA==\x07[bold]x[/bold]\u202etxt\x00\x9b31m", "\x1b[32mINFO\x1b[0m ok")
    async with open_screen() as screen:
        assert screen.rows[0] == " \\x1b]52;c;ZXZpbA==\\x07[bold]x[/bold]\\u202etxt\\x00\\x9b31m"
        assert screen.rows[1] == " INFO ok"


async def test_tracebacks_of_other_ranks_are_folded(open_screen, log) -> None:
    for rank in range(4):
        log.write(*traceback(rank))
    log.write(STAMP.format(0) + "after")
    async with open_screen(size=(120, 80)) as screen:
        text = screen.pane.text()
        assert text.count("Traceback (most") == 1
        assert "TP3 RuntimeError: Not enough memory on rank 3.  (15 lines)" in text


@pytest.mark.parametrize("key", ["enter"])
async def test_a_key_folds_and_unfolds_a_traceback(open_screen, log, key: str) -> None:
    log.write("before", *traceback(0, frames=3), STAMP.format(0) + "after")
    async with open_screen() as screen:
        await screen.press("g", "j", "j", "j", key)
        assert screen.cursor == "▸▸ TP0 RuntimeError: Not enough memory on rank 0.  (9 lines)"
        assert "step_1" not in screen.pane.text()
        assert screen.rows[0] == " before"
        await screen.press(key)
        assert "step_1" in screen.pane.text()
        assert screen.cursor is not None
        assert "Traceback" in screen.cursor


async def test_moving_steps_over_a_folded_traceback(open_screen, log) -> None:
    log.write("before", *traceback(0, frames=100), *traceback(1, frames=100), STAMP.format(0) + "after")
    async with open_screen() as screen:
        await screen.press("k")
        assert screen.cursor is not None
        assert "(203 lines)" in screen.cursor
        await screen.press("k", "k")
        assert screen.cursor == "▸RuntimeError: Not enough memory on rank 0."
        await screen.press("j", "j", "j")
        assert screen.cursor.endswith("after")


async def test_e_goes_from_error_to_error(open_screen, fake, log) -> None:
    log.write(*numbered(1, 100), STAMP.format(0) + "ERROR one", *numbered(101, 300), STAMP.format(0) + "ERROR two")
    log.write(*numbered(301, 400))
    async with open_screen(snapshot=replace(fake.serving(), error_lines=(300, 100))) as screen:
        await screen.press("E")
        assert screen.cursor is not None
        assert screen.cursor.endswith("ERROR two")
        assert screen.message.startswith("Error 2 of 2, line 300")
        await screen.press("E")
        assert screen.cursor.endswith("ERROR one")
        await screen.press("e")
        assert screen.cursor.endswith("ERROR two")
        await screen.press("e")
        assert screen.cursor.endswith("ERROR one")
        assert "from the other end" in screen.message


async def test_errors_of_files_before_a_rotation_are_left_out(open_screen, fake, log) -> None:
    log.write(*numbered(1, 11))
    log.rotate()
    log.write("ERROR: eleven", "twelve")
    async with open_screen(snapshot=replace(fake.serving(), error_lines=(5, 11))) as screen:
        await screen.press("e")
        assert screen.cursor == "▸ERROR: eleven"
        assert "line 11 of 12 lines" in screen.title


async def test_without_errors_e_says_so(open_screen, fake, log) -> None:
    log.write("fine")
    async with open_screen(snapshot=replace(fake.serving(), error_lines=())) as screen:
        await screen.press("e")
        assert "No error" in screen.message


async def test_a_rotated_log_is_followed_from_its_new_file(open_screen, log) -> None:
    log.write(*numbered(1, 100))
    async with open_screen() as screen:
        log.rotate()
        log.write("fresh")
        await screen.tick()
        assert screen.rows == [" fresh"]


async def test_go_to_a_line_of_the_verdict(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        assert screen.pane.goto_line(123)
        await screen.settle()
        assert screen.cursor == "▸line 123"
        assert not screen.pane.goto_line(9999)
        assert "not in this log" in screen.message


async def test_what_is_copied(open_screen, log) -> None:
    trace = traceback(0, frames=2)
    log.write("one", *trace, STAMP.format(0) + "two \x1b]52;c;x\x07")
    async with open_screen() as screen:
        assert screen.pane.copied_text().startswith("one\n")
        await screen.press("k", "j")
        assert screen.pane.copied_text() == STAMP.format(0) + "two \\x1b]52;c;x\\x07"
        await screen.press("k", "k")
        assert screen.pane.copied_text() == "\n".join(trace)


async def test_line_numbers_at_wide_sizes_and_on_request(open_screen, log) -> None:
    log.write("one", "two")
    log.lines_before = 40
    async with open_screen(size=(160, 50)) as screen:
        assert screen.rows == ["  41 one", "  42 two"]
        await screen.press("number_sign")
        assert screen.rows == [" one", " two"]


async def test_the_end_of_a_log_that_is_not_indexed_yet(open_screen, log, monkeypatch) -> None:
    monkeypatch.setattr("tui.app.widgets.log_pane_view.FAR_BYTES", 1000)
    with log.path.open("w") as file:
        file.write("\n".join(numbered(1, 5000)) + "\n")
    async with open_screen() as screen:
        assert "indexing 0%" in screen.title
        assert screen.rows[-1] == " line 4999"
        await screen.press(*["pageup"] * 3)
        place = screen.cursor
        assert place is not None
        assert place < "▸line 4999"
        await screen.press("e")
        while log.index.grow():
            pass
        await screen.tick()
        assert screen.cursor == place
        assert "indexing" not in screen.title
        await screen.press("G")
        assert screen.rows[-1] == " line 4999"


async def test_a_log_cut_under_the_pane_is_survived(open_screen, log) -> None:
    log.write(*numbered(1, 500))
    async with open_screen() as screen:
        os.truncate(log.path, 10)
        await screen.press("k", "b", "b", "g", "G")
        assert "Log" in screen.title


async def test_the_screen_is_left_while_a_search_is_under_way(open_screen, log) -> None:
    log.write(*numbered(1, 50_000))
    async with open_screen() as screen:
        await screen.press("slash")
        screen.pilot.app.screen.query_one("Input").value = "/(x+x+)+y/"
        await screen.pilot.press("enter", "q")
    assert screen.pane._work._search_stop.is_set()


async def test_nothing_is_news_until_the_log_grows_and_then_it_is_seen_without_being_told(open_screen, log) -> None:
    log.write(*numbered(1, 30))
    async with open_screen() as screen:
        await screen.tick()
        assert not screen.pane._has_news(time.monotonic())
        drawn = asyncio.Event()
        redraw = screen.pane.redraw
        screen.pane.redraw = lambda: (redraw(), drawn.set() if screen.rows[-1:] == [" news"] else None)
        log.write("news")
        await asyncio.wait_for(drawn.wait(), 30)
        await screen.settle()
        assert not screen.pane._has_news(time.monotonic())


async def test_a_log_that_tells_when_it_was_read_is_not_looked_at(open_screen, log) -> None:
    log.write("one")
    heard = []
    log.listen = heard.append
    async with open_screen() as screen:
        log.write("two")
        assert screen.pane._next_look is None
        heard[-1]()
        await screen.settle()
        assert screen.rows == [" one", " two"]
