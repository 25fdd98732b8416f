"""Bytes to lines: any cut of the stream, any bytes, and lines too long to keep."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sources import linetext
from tui.sources.linetext import CAP_BYTES, KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, LineSplitter, line_text, split_lines

HOSTILE = st.lists(
    st.sampled_from(
        [b"\n", b"a", b"\r", b"\0", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\xff", b"\xc0\x80", b"\xed\xa0\x80"]
    )
).map(b"".join)


@given(HOSTILE)
def test_decoding_a_body_at_once_is_decoding_it_line_by_line(body: bytes) -> None:
    assert split_lines(body) == [line.decode("utf-8", "replace") for line in body.split(b"\n")]


@given(HOSTILE, st.lists(st.integers(0, 60)))
def test_cuts_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = LineSplitter()
    lines = [line for start, stop in pairwise(edges) for line in splitter.feed(stream[start:stop])]
    *complete, rest = [part.decode("utf-8", "replace") for part in stream.split(b"\n")]
    assert lines == complete
    assert splitter.flush() == ([rest] if rest else [])
    assert (splitter.pending_bytes, splitter.flush(), splitter.partial()) == (0, [], "")


def test_a_character_that_has_come_in_part_waits() -> None:
    splitter = LineSplitter()
    euro = "€".encode()
    splitter.feed(b"price 5 " + euro[:2])
    assert splitter.partial() == "price 5 "
    splitter.feed(euro[2:])
    assert splitter.partial() == "price 5 €"
    assert splitter.feed(b"\n") == ["price 5 €"]


@pytest.mark.parametrize("length", [CAP_BYTES - 1, CAP_BYTES])
def test_a_line_up_to_the_cap_is_whole(length: int) -> None:
    assert line_text(b"x" * length) == "x" * length


@pytest.mark.parametrize("char", ["x", "ü", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_a_longer_line_keeps_both_ends_and_counts_what_is_cut(char: str, shift: int) -> None:
    line = b"a" * shift + char.encode() * (CAP_BYTES // len(char.encode()) + 9) + b"the end"
    text = line_text(line)
    assert "\N{REPLACEMENT CHARACTER}" not in text
    head, count, tail = re.fullmatch(r"(.*) \[… (\d+) bytes cut …\] (.*)", text).groups()
    assert len(head.encode()) + int(count) + len(tail.encode()) == len(line)
    assert line.startswith(head.encode())
    assert line.endswith(tail.encode())
    assert KEPT_HEAD_BYTES - 4 < len(head.encode()) <= KEPT_HEAD_BYTES
    assert KEPT_TAIL_BYTES - 4 < len(tail.encode()) <= KEPT_TAIL_BYTES


@pytest.mark.parametrize("slice_bytes", [1000, 16 * 1024, 70_000, 1 << 20])
def test_a_monster_is_the_same_however_it_comes_and_costs_little(slice_bytes: int) -> None:
    line = bytes(33 + at % 90 for at in range(1_000_003))
    splitter = LineSplitter()
    lines = []
    for start in range(0, len(line), slice_bytes):
        lines += splitter.feed(line[start : start + slice_bytes])
        assert len(splitter._head) + len(splitter._tail) <= CAP_BYTES + 4 * KEPT_TAIL_BYTES
    assert splitter.partial() == line_text(line)
    lines += splitter.feed(b"\nnext\n")
    assert lines == [line_text(line), "next"]


def test_a_monster_between_ordinary_lines_in_one_slice() -> None:
    monster = b"m" * (CAP_BYTES + 1)
    assert split_lines(b"a\n" + monster + b"\nb") == ["a", line_text(monster), "b"]
    assert linetext.LineSplitter().feed(b"a\n" + monster + b"\nb\n") == ["a", line_text(monster), "b"]
