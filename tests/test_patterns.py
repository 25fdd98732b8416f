"""Expressions that are compiled at first use answer as those of `re`."""

import re

import pytest

from tui.patterns import lazy, lazy_bytes


def test_it_answers_as_a_compiled_one() -> None:
    ours, theirs = lazy(r"(\w)=(\d+)", re.ASCII), re.compile(r"(\w)=(\d+)", re.ASCII)
    text = "a=1, b=22, é=3"
    for _ in range(2):
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("-", text) == theirs.sub("-", text)
        found = ours.search(text)
        assert found is not None
        assert found.groups() == ("a", "1")
        assert ours.match("?") is None
        assert ours.fullmatch("a=1") is not None
        assert [one.start() for one in ours.finditer(text)] == [one.start() for one in theirs.finditer(text)]
    assert lazy_bytes(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_nothing_is_compiled_before_it_is_asked() -> None:
    wrong = lazy("(")
    with pytest.raises(re.error):
        wrong.search("")


def test_what_a_pattern_does_not_have_is_told() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = lazy("a").no_such_thing  # type: ignore[attr-defined]
