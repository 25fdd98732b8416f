"""A recording loses nothing: every fact comes back equal from its JSON line."""

import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.factlines import FactLineError, dump_fact, fact_classes, load_fact, read_facts
from tui.facts import GpuReading, GpuSample, WeightsEnd

text = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, read from the vocabulary itself so that a new fact is covered when it is added."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return json_values
    if hint is float:
        return numbers
    if hint in (typing.Union, UnionType) or origin in (typing.Union, UnionType):
        inner = next(arg for arg in args if arg is not NoneType)
        return st.none() | strategy(inner)
    if origin is tuple:
        return st.lists(strategy(args[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(text, strategy(args[1]), max_size=3)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{field.name: strategy(hints[field.name]) for field in fields(hint)})
    return {int: st.integers(-(2**53), 2**53), str: text, bool: st.booleans()}[hint]


any_fact = st.one_of([strategy(cls) for cls in fact_classes().values()])


@given(any_fact)
@settings(max_examples=400)
def test_every_fact_survives_its_line(fact: Any) -> None:
    line = dump_fact(fact)
    assert "\n" not in line
    assert load_fact(line) == fact


def test_defaults_are_left_out_of_the_line() -> None:
    assert dump_fact(WeightsEnd(at=1.0, line=3)) == '{"f":"WeightsEnd","at":1.0,"line":3}'


def test_nested_facts_come_back_as_their_types() -> None:
    sample = GpuSample(at=1, source="nvml", gpus=(GpuReading(index=0, uuid="GPU-0", name="H200", total_gib=140),))
    back = load_fact(dump_fact(sample))
    assert isinstance(back, GpuSample)
    assert isinstance(back.gpus[0], GpuReading)


def test_a_number_that_is_not_finite_is_read_back_as_unknown() -> None:
    assert load_fact(dump_fact(WeightsEnd(at=1.0, line=3, used_gib=float("nan")))) == WeightsEnd(at=1.0, line=3)


def test_a_fact_of_a_newer_version_is_skipped() -> None:
    assert load_fact('{"f":"Telepathy","at":1}') is None


@pytest.mark.parametrize(
    "line", ["", "[]", "3", '{"at":1}', '{"f":"WeightsEnd","at":1}', '{"f":"WeightsEnd","at":[]}', "{"]
)
def test_what_is_no_fact_is_said_to_be_none(line: str) -> None:
    with pytest.raises(FactLineError):
        load_fact(line)


def test_only_the_last_line_of_a_recording_may_be_cut() -> None:
    whole = dump_fact(WeightsEnd(at=1.0, line=3))
    assert len(list(read_facts([whole, "\n", whole[:-4]]))) == 1
    with pytest.raises(FactLineError):
        list(read_facts([whole[:-4], whole]))
