"""The throughput that the story tells, and whether speculation pays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.rehearsal.speeds import Speeds


def plain(graph: int) -> Speeds:
    return Speeds(tok_s=89.5, graph_max=graph, configured_max=graph)


def tree(steps: int, topk: int, tokens: int, acceptance: float = 1.0) -> Speeds:
    return Speeds(89.5, 48, 128, "EAGLE3", steps, topk, tokens, acceptance)


def gain(speeds: Speeds, batch: int) -> float:
    """Throughput with speculation over throughput without."""
    return speeds.accept_len() * speeds.plain_step_s(batch) / speeds.step_s(batch)


def test_the_graph_size_of_the_story() -> None:
    assert 1 / plain(512).step_s(1) == pytest.approx(82.0)
    assert 1 / plain(128).step_s(1) == pytest.approx(89.5)
    between = [1 / plain(size).step_s(1) for size in (512, 384, 256, 192, 128)]
    assert between == sorted(between)


def test_without_graphs_it_is_slow() -> None:
    assert plain(0).step_s(1) > 2 * plain(128).step_s(1)
    assert plain(8).step_s(9) > 2 * plain(128).step_s(9)


def test_the_tree_of_the_story_pays_for_one_request_and_not_for_many() -> None:
    story = tree(2, 4, 4)
    assert 2.0 < story.accept_len() <= 3.0
    gains = [gain(story, batch) for batch in (1, 4, 8, 16, 24, 32, 48)]
    assert gains[0] > 1.5
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < 1 < gains[3]


def test_other_trees_are_no_better_for_one_request() -> None:
    best = gain(tree(2, 4, 4), 1)
    assert all(gain(tree(*shape), 1) < best for shape in ((1, 1, 2), (3, 1, 4), (5, 4, 8), (4, 1, 5)))


def test_a_draft_that_guesses_badly_does_not_pay() -> None:
    assert gain(tree(2, 4, 4, acceptance=0.25), 1) < 1


@settings(max_examples=60)
@given(
    steps=st.integers(1, 8), topk=st.integers(1, 8), tokens=st.integers(2, 32), batch=st.integers(1, 64),
    acceptance=st.floats(0.05, 1.0),
)  # fmt: skip
def test_nothing_is_accepted_that_was_not_drafted(
    steps: int, topk: int, tokens: int, batch: int, acceptance: float
) -> None:
    speeds = tree(steps, topk, tokens, acceptance)
    assert 1.0 < speeds.accept_len() <= steps + 1
    assert speeds.step_s(batch) > speeds.plain_step_s(batch)
    assert speeds.plain_step_s(batch + 1) > speeds.plain_step_s(batch)
