"""What is searched, marked, filtered and hidden in the log pane, driven by keys."""

import pytest
from log_screen import numbered


async def test_search_finds_marks_and_goes_on(open_screen, log) -> None:
    log.write(*[f"line {i}" + (" needle" if i % 100 == 0 else "") for i in range(1, 501)])
    async with open_screen() as screen:
        await screen.type("slash", "NEEDLE".lower())
        assert screen.cursor == "▸line 500 needle"
        await screen.press("N")
        assert screen.cursor == "▸line 400 needle"
        row = next(i for i, row in enumerate(screen.rows) if row == screen.cursor)
        assert ("needle", "cursor") in screen.pane._lines[row + 1]
        await screen.press("n", "n")
        assert screen.cursor == "▸line 100 needle"
        assert "other end" in screen.message


@pytest.mark.parametrize(
    ("typed", "found"),
    [("alpha", "Alpha"), ("Alpha", "Alpha"), ("ALPHA", None), ("/al.+a$/", "Alpha"), ("a.p", None), ("!alpha", "beta")],
)
async def test_what_can_be_searched(open_screen, log, typed: str, found: str | None) -> None:
    log.write("Alpha", "beta")
    async with open_screen() as screen:
        await screen.type("slash", typed)
        assert screen.cursor == (None if found is None else f"▸{found}")
        if found is None:
            assert "nowhere" in screen.message


async def test_a_broken_expression_is_told_and_changes_nothing(open_screen, log) -> None:
    log.write("Alpha")
    async with open_screen() as screen:
        await screen.type("slash", "/(/")
        assert "not a regular expression" in screen.message
        await screen.type("ampersand", "/[/")
        assert screen.rows == [" Alpha"]


async def test_a_filter_shows_what_matches_and_keeps_up(open_screen, log) -> None:
    log.write(*numbered(1, 300))
    async with open_screen() as screen:
        await screen.type("ampersand", "9")
        assert screen.rows[-1] == " line 299"
        assert all("9" in row for row in screen.rows)
        assert "57 lines" in screen.title
        log.write("line 300", "line 309", "half 9", end="")
        await screen.tick()
        screen.pane._window._jumped_at -= 1
        await screen.tick()
        assert screen.rows[-1] == " line 309"
        await screen.press("escape")
        assert screen.rows[-1] == " half 9"


async def test_an_inverse_filter_leaves_matches_out(open_screen, log) -> None:
    log.write("Decode batch 1", "keep 1", "Decode batch 2", "keep 2")
    async with open_screen() as screen:
        await screen.type("ampersand", "!decode")
        assert screen.rows == [" keep 1", " keep 2"]


async def test_a_filter_that_nothing_passes_says_how_to_end_it(open_screen, log) -> None:
    log.write("a")
    async with open_screen() as screen:
        await screen.type("ampersand", "zzz")
        assert "No line passes" in screen.pane.text()
        await screen.type("ampersand", "")
        assert screen.rows == [" a"]


async def test_the_cursor_stays_on_its_line_when_a_filter_ends(open_screen, log) -> None:
    log.write(*numbered(1, 300))
    async with open_screen() as screen:
        await screen.type("ampersand", "/7$/")
        await screen.press("k", "k", "escape")
        assert screen.cursor == "▸line 277"


async def test_requests_of_monitors_can_be_hidden(open_screen, log) -> None:
    poll = 'INFO:     127.0.0.1:4 - "GET /metrics HTTP/1.1" 200 OK'
    log.write("one", poll, 'INFO:     1.2.3.4:5 - "POST /generate HTTP/1.1" 200 OK', poll)
    async with open_screen() as screen:
        assert ("faint") in {style for line in screen.pane._lines for _, style in line}
        await screen.press("h")
        assert [row.split(" - ")[-1] for row in screen.rows] == [" one", '"POST /generate HTTP/1.1" 200 OK']
        await screen.type("ampersand", "one")
        assert screen.rows == [" one"]
        await screen.press("escape", "h")
        assert len(screen.rows) == 4
