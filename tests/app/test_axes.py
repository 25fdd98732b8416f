"""Axes stand still while data comes in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.app.axes import ceiling, clock_ticks, window


@given(st.floats(0, 2e9), st.sampled_from([300.0, 900.0, 86400.0]))
def test_the_window_holds_the_newest_point_near_its_right_edge(newest: float, span: float) -> None:
    left, right = window(newest, span)
    assert right - left == span
    assert left <= newest < right
    assert right - newest <= span / 6 + 1e-6


def test_the_window_moves_in_steps() -> None:
    edges = {window(1_795_956_000.0 + second, 300.0) for second in range(300)}
    assert len(edges) <= 7


@given(st.floats(0.01, 1e6))
def test_the_ceiling_is_above_and_not_far_above(most: float) -> None:
    top = ceiling(most)
    assert most * 1.05 <= top * (1 + 1e-9)
    assert top <= most * 1.05 * 1.52


@pytest.mark.parametrize(("most", "top"), [(0.0, 1.0), (89.5, 100.0), (96.0, 150.0), (2.31, 3.0), (1400.0, 1500.0)])
def test_ceilings(most: float, top: float) -> None:
    assert ceiling(most) == pytest.approx(top)


@given(st.floats(0, 2e9), st.sampled_from([60.0, 300.0, 3600.0, 86400.0]), st.integers(0, 200))
def test_ticks_fit_and_do_not_touch(left: float, span: float, columns: int) -> None:
    end = -1
    for column, text in clock_ticks(left, left + span, columns):
        assert column > end
        end = column + len(text)
        assert end <= columns


def test_ticks_are_round_times() -> None:
    assert [text for _, text in clock_ticks(1_795_955_700.0, 1_795_956_000.0, 70)] == [
        "12:36",
        "12:37",
        "12:38",
        "12:39",
    ]
