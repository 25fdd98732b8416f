"""plotext behind its adapter: exact sizes, holes stay holes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.app.plot_adapter import curve, thinned


def blank(line: str) -> str:
    return line.replace("\u2800", " ")


@pytest.mark.parametrize("size", [(70, 12), (8, 2), (1, 1), (200, 3)])
def test_a_curve_is_exactly_as_large_as_asked(size: tuple[int, int]) -> None:
    lines = curve([(0.0, 1.0), (5.0, 3.0), (10.0, 2.0)], size, (0.0, 10.0), (0.0, 4.0))
    assert len(lines) == size[1]
    assert {len(line) for line in lines} == {size[0]}


def test_no_points_are_blank_rows_and_no_room_is_no_row() -> None:
    assert curve([], (5, 2), (0.0, 1.0), (0.0, 1.0)) == [" " * 5] * 2
    assert curve([(0.0, 1.0)], (0, 2), (0.0, 1.0), (0.0, 1.0)) == []


def test_higher_values_are_drawn_higher() -> None:
    lines = curve([(0.0, 0.0), (10.0, 10.0)], (20, 4), (0.0, 10.0), (0.0, 10.0))
    rows = [blank(line).rstrip() for line in lines]
    assert len(rows[0]) > len(rows[3]) > 0


def test_points_far_apart_are_not_joined() -> None:
    points = [(0.0, 5.0), (1.0, 5.0), (9.0, 5.0), (10.0, 5.0)]
    joined = "".join(blank(line) for line in curve(points, (20, 3), (0.0, 10.0), (0.0, 10.0)))
    holed = "".join(blank(line) for line in curve(points, (20, 3), (0.0, 10.0), (0.0, 10.0), gap=3.0))
    assert holed.count(" ") > joined.count(" ") + 10


def test_ascii_needs_no_braille() -> None:
    lines = curve([(0.0, 1.0), (10.0, 2.0)], (20, 4), (0.0, 10.0), (0.0, 3.0), marker="*")
    assert all(line.isascii() for line in lines)
    assert any("*" in line for line in lines)


POINTS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=300).map(sorted)


@given(points=POINTS, columns=st.integers(1, 40))
def test_of_each_column_the_lowest_and_the_highest_are_kept(points, columns) -> None:
    step = 100 / columns
    kept = thinned(points, 0.0, step)
    assert set(kept) <= set(points)
    assert kept == sorted(kept)
    for column in {int(x // step) for x, _ in points}:
        before = [y for x, y in points if int(x // step) == column]
        after = [y for x, y in kept if int(x // step) == column]
        assert (min(after), max(after)) == (min(before), max(before))
        assert len(after) <= 2


@pytest.mark.parametrize("marker", ["braille", "*"])
@given(points=POINTS)
def test_a_filled_curve_is_the_line_and_all_below_it(marker, points) -> None:
    line, filled = (curve(points, (20, 6), (0, 100), (0, 50), marker, fill=fill) for fill in (False, True))
    for column in range(20):
        drawn = [row[column] not in (" ", "\u2800") for row in line]
        top = drawn.index(True) if True in drawn else len(drawn)
        assert [row[column] not in (" ", "\u2800") for row in filled] == [at >= top for at in range(6)]
    if marker == "braille":
        assert all(ord(new) & ord(old) == ord(old) for a, b in zip(line, filled, strict=True)
                   for old, new in zip(a, b, strict=True) if old not in (" ", "\u2800"))  # fmt: skip


def test_a_day_of_points_costs_no_more_than_the_canvas_shows() -> None:
    points = [(second * 20.0, 900 + second * 7919 % 200) for second in range(4096)]
    assert len(thinned(points, 0.0, points[-1][0] / 200)) <= 402
