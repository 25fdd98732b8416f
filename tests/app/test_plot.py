"""The plot: series, zoom, the baseline's line, and what speculation is worth."""

from dataclasses import replace

import pytest

from tui.app.axes import window_of_all
from tui.app.glyphs import ASCII, UNICODE
from tui.app.main import SpecdeckApp
from tui.app.text import width_of
from tui.app.widgets import plot
from tui.app.widgets.plot import SERIES, SPANS, Plot, chart, economy_lines, title
from tui.snapshot import PlotMark


def said(lines) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


def edges(fake) -> tuple[float, float]:
    return fake.NOW - 300, fake.NOW + 10


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
@pytest.mark.parametrize("size", [(70, 8), (40, 3), (120, 20)])
def test_every_series_fills_its_rows(fake, series, size) -> None:
    for glyphs in (UNICODE, ASCII):
        lines = chart(fake.serving(), edges(fake), size, glyphs, series)
        assert len(lines) == size[1]
        assert all(sum(width_of(text) for text, _ in line) <= size[0] for line in lines)
        assert "appear here" not in said(lines)


def test_pool_usage_is_drawn_in_percent_of_the_whole(fake) -> None:
    lines = chart(fake.serving(), edges(fake), (70, 8), UNICODE, SERIES[2])
    assert "100" in said(lines[:1])
    assert "62% of 116 707 tokens" in said([title(fake.serving(), "1 h", 80, SERIES[2])])


def test_a_series_without_values_says_so(fake) -> None:
    plain = replace(fake.serving(), points=fake.curve(60, accept=None), accept_len=None)
    assert "tok/s" not in said(chart(plain, edges(fake), (70, 8), UNICODE, SERIES[1]))


def test_the_baseline_is_a_line_at_its_height(fake) -> None:
    snapshot = replace(fake.serving(), baseline_tok_s=150.0)
    lines = chart(snapshot, edges(fake), (70, 12), UNICODE)
    with_rule = [i for i, line in enumerate(lines) if UNICODE.rule in said([line])]
    assert len(with_rule) == 1
    lower = chart(replace(snapshot, baseline_tok_s=20.0), edges(fake), (70, 12), UNICODE)
    assert next(i for i, line in enumerate(lower) if UNICODE.rule in said([line])) > with_rule[0]
    assert UNICODE.rule not in said(chart(fake.serving(), edges(fake), (70, 12), UNICODE))
    assert "baseline 150.0" in said([title(snapshot, "1 h", 120)])


def test_the_axis_reaches_up_to_a_faster_baseline(fake) -> None:
    top = said(chart(replace(fake.serving(), baseline_tok_s=400.0), edges(fake), (70, 8), UNICODE)[:1])
    assert int(top[:6]) >= 400


@pytest.mark.parametrize(("height", "rows"), [(4, 0), (6, 1), (9, 1), (12, 2)])
def test_worth_takes_few_rows_and_never_more_than_there_are(fake, height: int, rows: int) -> None:
    snapshot = replace(fake.serving(), economy="Batch 8: pays, +31%: " + "accept length 2.31 " * 12)
    lines = economy_lines(snapshot, 60, height)
    assert len(lines) == rows
    assert all(sum(width_of(text) for text, _ in line) <= 60 for line in lines)
    assert economy_lines(fake.serving(), 60, height) == []


def test_the_window_of_all_holds_the_first_and_the_newest_point(fake) -> None:
    for age in (0.0, 30.0, 4000.0, 80_000.0, 3e6):
        left, right = window_of_all(fake.NOW - age, fake.NOW)
        assert left <= fake.NOW - age
        assert right > fake.NOW
    assert window_of_all(None, fake.NOW)[1] > fake.NOW


async def test_keys_choose_the_series_and_the_zoom(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(replace(fake.serving(), economy="Batch 8: pays, +31%.")))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        plot = app.dashboard.query_one(Plot)
        for key, series in zip("2341", (*SERIES[1:], SERIES[0]), strict=True):
            await pilot.press(key)
            assert series.title in plot.text()
            assert "Batch 8: pays" in plot.text()
        seen = set()
        for _ in SPANS:
            await pilot.press("z")
            seen.add(plot.text().split("\n")[0].split("  ")[-1].strip())
        assert seen == {"1 min", "10 min", "1 h", "all"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [((599.0,), "exit┊"), ((300.0,), "┊exit"), ((1.0,), "┊exit"), ((500.0, 599.0), "exit┊"), ((596.0, 599.0), "┊")],
)
def test_the_name_of_a_mark_at_the_edge_stays_in_sight(fake, seconds: tuple[float, ...], words: str) -> None:
    now = fake.NOW
    marks = tuple(PlotMark(at=now - 600.0 + at, text="exit" if at == seconds[-1] else "go") for at in seconds)
    shot = replace(fake.serving(), marks=marks)
    axis = "".join(text for text, _ in chart(shot, (now - 600.0, now), (70, 8), UNICODE)[-1])
    assert words in axis
    assert len(axis) <= 70


async def test_the_chart_is_built_when_there_is_something_for_another_column(fake, monkeypatch) -> None:
    built = []
    whole = plot.chart
    monkeypatch.setattr(plot, "chart", lambda *args: built.append(args) or whole(*args))
    feed = fake.FakeFeed(fake.serving())
    app = SpecdeckApp(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        pane = app.screen.query_one(plot.Plot)
        points = list(feed.snapshot.points)
        before, at, columns = len(built), points[-1].at, set()
        for second in range(60):
            points.append(replace(points[-1], at=at + 0.5 * second, gen_tok_s=80.0 + second))
            snapshot = replace(feed.snapshot, points=tuple(points))
            columns.add(plot.column_of(points[-1].at, plot.window(snapshot.at, 600.0), pane.size.width))
            pane.show(snapshot)
        assert 2 < len(columns) < 20
        assert len(columns) - 1 <= len(built) - before <= len(columns)
