"""What changed since the last fact: nothing is lost, and repeats are short."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.runs.deltas import WHOLE_EVERY, Deltas, apply, difference

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, width=32) | st.text(max_size=3)
KEYS = st.sampled_from(["a", "b", "c", "-", "0", "d", "f"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def same(one: Any, other: Any) -> bool:
    """As JSON text, which tells 1 from 1.0 and from true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@settings(max_examples=150)
@given(old=VALUES, new=VALUES)
@example(old={"-": False}, new={"-": 0})
@example(old={"-": [0.0]}, new={"-": [-0.0]})
def test_a_difference_turns_the_old_into_the_new(old: Any, new: Any) -> None:
    change = json.loads(json.dumps(difference(old, new)))
    assert same(apply(old, change), new)
    assert same(difference(new, new), {})


@settings(max_examples=60)
@given(values=st.lists(st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3), max_size=8))
def test_a_stream_comes_back(values: list[dict[str, Any]]) -> None:
    facts = [{"f": "AB"[i % 2], "at": float(i), **value} for i, value in enumerate(values)]
    writer, reader = Deltas(), Deltas()
    for fact in facts:
        line = json.loads(json.dumps(writer.encode(fact)))
        assert same(reader.decode(line), fact)


def test_a_repeat_is_short_and_a_whole_one_comes_now_and_then() -> None:
    writer = Deltas()
    gpus = [{"index": i, "uuid": f"GPU-{i}", "name": "a long name of a GPU", "free_gib": 3.5} for i in range(8)]
    lines = [writer.encode({"f": "GpuSample", "at": float(i), "gpus": gpus}) for i in range(WHOLE_EVERY + 1)]
    assert lines[0]["f"] == "GpuSample"
    assert lines[1] == {"d": "GpuSample", "at": [1.0]}
    assert lines[WHOLE_EVERY]["f"] == "GpuSample"
    warmer = [{**gpu, "free_gib": 3.0} if gpu["index"] == 3 else gpu for gpu in gpus]
    assert writer.encode({"f": "GpuSample", "at": 0.5, "gpus": warmer}) == {
        "d": "GpuSample",
        "at": [0.5],
        "gpus": {"3": {"free_gib": [3.0]}},
    }


@pytest.mark.parametrize(
    "line",
    [
        {"d": "GpuSample", "at": [1.0]},  # the whole one was lost
        {"x": 1},
    ],
)
def test_a_change_of_nothing_is_an_error(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"lost|neither"):
        Deltas().decode(line)


def test_a_change_that_does_not_fit_is_an_error() -> None:
    reader = Deltas()
    reader.decode({"f": "A", "gpus": [{"x": 1}]})
    with pytest.raises(ValueError, match="does not fit"):
        reader.decode({"d": "A", "gpus": {"7": {"x": [2]}}})
