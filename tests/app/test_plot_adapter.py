"""plotext behind its adapter: exact sizes, holes stay holes."""

import pytest

from tui.app.plot_adapter import curve


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
