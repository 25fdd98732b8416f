"""Runs side by side, as lines."""

from dataclasses import replace

import pytest

from tui.app.glyphs import ASCII, UNICODE
from tui.app.main import SpecdeckApp
from tui.app.screens.compare import CompareScreen, compare_lines
from tui.app.text import width_of


def body(found, width: int = 100, glyphs=UNICODE) -> str:
    return "\n".join("".join(text for text, _ in line) for line in compare_lines(found, width, glyphs))


def test_knobs_memory_speed_and_worth_are_told(fake) -> None:
    text = " ".join(body(fake.comparison()).split())
    for words in (
        "A 2026-11-29T11-31-12_kimi-base stopped",
        "mem-fraction-static",
        "unset",
        "0.85",
        "GiB free",
        "116 707",
        "120.5 against 89.5 tok/s at batch 1",
        "pays, +35%",
        "was ready after 466 s",
    ):
        assert words in text


def test_bars_are_drawn_to_one_scale(fake) -> None:
    found = fake.comparison()
    half = replace(found.bars[1], total_gib=48.0, segments={"base": fake.measured(24.0), "free": fake.measured(24.0)})
    lines = body(replace(found, bars=(found.bars[0], half)), 120, ASCII).split("\n")
    bars = [line for line in lines if line.endswith("GiB free")]
    assert len(bars) == 2
    assert bars[0].count("B") > 2.5 * bars[1].count("B")
    assert "k" in bars[0]


def test_values_that_differ_from_the_first_stand_out(fake) -> None:
    lines = compare_lines(fake.comparison(), 100, UNICODE)
    changed = {text.strip() for line in lines for text, style in line if style == "changed"}
    assert {"0.85", "EAGLE3", "1.50", "7.64"} <= changed
    assert "72.33" not in changed


def test_runs_of_the_same_knobs_say_so(fake) -> None:
    assert "No knob differs" in body(replace(fake.comparison(), knobs=()))


def test_what_is_not_known_is_a_dash(fake) -> None:
    found = fake.comparison()
    empty = replace(found.bars[1], total_gib=None, segments={})
    text = body(replace(found, bars=(found.bars[0], empty), kv_tokens=(14_205, None)))
    assert "– GiB free" in text
    assert text.count("–") >= 7


@pytest.mark.parametrize("width", [60, 76, 98, 138])
def test_no_line_is_wider_than_asked(fake, width: int) -> None:
    for line in compare_lines(fake.comparison(), width, UNICODE):
        assert sum(width_of(text) for text, _ in line) <= max(width, 78)


async def test_the_screen_shows_and_copies_it(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.push_screen(CompareScreen(fake.comparison()))
        await pilot.pause()
        assert "Throughput at equal batch size" in app.screen.query_one("#reader-body").text()
        await pilot.press("y")
        assert "120.5 against 89.5" in app.clipboard
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.dashboard
