"""The strip maths: segments sum to the width, nothing that exists is invisible."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.app.bars import (
    apportion,
    bar_cells,
    bar_length,
    over_budget,
    parts,
    scale_of,
    tick_cell,
    tightest,
    used_fraction,
)
from tui.snapshot import SEGMENTS, UNKNOWN, Amount, GpuBar

SIZES = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 200.0)), min_size=1, max_size=9)


@given(SIZES, st.integers(0, 200))
def test_cells_sum_to_the_width(sizes: list[float], width: int) -> None:
    cells = apportion(sizes, width)
    assert sum(cells) == (width if any(sizes) else 0)
    assert all(count >= 0 for count in cells)


@given(SIZES, st.integers(0, 200))
def test_what_exists_is_seen_and_what_does_not_is_not(sizes: list[float], width: int) -> None:
    cells = apportion(sizes, width)
    present = sum(1 for size in sizes if size > 0)
    for size, count in zip(sizes, cells, strict=True):
        if size == 0:
            assert count == 0
        elif present <= width:
            assert count >= 1


@given(SIZES, st.integers(1, 200))
def test_a_larger_segment_never_gets_fewer_cells(sizes: list[float], width: int) -> None:
    cells = apportion(sizes, width)
    for a, cells_a in zip(sizes, cells, strict=True):
        for b, cells_b in zip(sizes, cells, strict=True):
            if a > b:
                assert cells_a >= cells_b or cells_b == 1


def test_with_fewer_cells_than_segments_the_largest_are_shown() -> None:
    assert apportion([1.0, 5.0, 3.0, 0.5], 2) == [0, 1, 1, 0]


def bar(
    total: float | None = 100.0, budget: float | None = None, used: float | None = None, **sizes: float | None
) -> GpuBar:
    segments = {name: Amount(gib=sizes[name]) if name in sizes else UNKNOWN for name in SEGMENTS}
    return GpuBar(index=0, name="x", total_gib=total, budget_gib=budget, kv_used_gib=used, segments=segments)


def test_kv_is_split_into_what_holds_tokens_and_the_rest() -> None:
    assert dict(parts(bar(kv=10.0, used=4.0, free=90.0)))["kv-used"] == 4.0
    assert dict(parts(bar(kv=10.0, used=40.0, free=90.0)))["kv"] == 0.0
    assert dict(parts(bar(kv=10.0, free=90.0)))["kv"] == 10.0


def test_what_nobody_named_is_drawn_as_unknown() -> None:
    assert dict(parts(bar(base=70.0)))["unknown"] == 30.0
    assert bar_cells(bar(base=70.0), 100.0, 10) == [("base", 7), ("unknown", 3)]


def test_a_negative_size_is_drawn_as_nothing() -> None:
    assert bar_cells(bar(graphs=-0.2, free=100.0), 100.0, 10) == [("free", 10)]


def test_smaller_gpus_are_drawn_shorter() -> None:
    small = bar(total=50.0, free=50.0)
    assert scale_of([small, bar(free=100.0)]) == 100.0
    assert bar_length(small, 100.0, 80) == 40


def test_a_bar_of_a_gpu_that_said_nothing_has_no_cells() -> None:
    assert bar_cells(bar(total=None), 100.0, 80) == []
    assert bar_cells(bar(total=None), 0.0, 80) == []


@pytest.mark.parametrize(
    ("budget", "cell"), [(None, None), (0.0, 0), (71.5, 71), (100.0, 99), (130.0, 99), (-1.0, None)]
)
def test_the_tick_stands_where_the_budget_ends(budget: float | None, cell: int | None) -> None:
    assert tick_cell(bar(budget=budget, free=100.0), 100.0, 100) == cell


def test_weights_that_cross_the_budget_are_noticed() -> None:
    assert over_budget(bar(base=70.0, draft=2.0, budget=71.5))
    assert not over_budget(bar(base=70.0, budget=71.5))
    assert not over_budget(bar(base=70.0))


def test_used_is_what_is_not_free_and_unknown_without_free() -> None:
    assert used_fraction(bar(free=25.0)) == 0.75
    assert used_fraction(bar(base=25.0)) is None
    assert used_fraction(bar(total=None, free=25.0)) is None


def test_the_marked_gpu_is_the_tightest_else_the_first() -> None:
    first, second = bar(free=1.0), replace(bar(free=2.0), index=1, tight=True)
    assert tightest([first, second]) is second
    assert tightest([first]) is first
    assert tightest([]) is None
