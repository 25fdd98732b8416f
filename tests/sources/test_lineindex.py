"""Any line of a log of any size, while it grows, and search through it."""

import os
import random
import re
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.sources import lineindex, linesearch, lineseek
from tui.sources.lineindex import LineIndex
from tui.sources.linesearch import as_pattern, last_matching_line, line_pattern, matching_lines
from tui.sources.lineseek import BLOCK_BYTES, nth_newline, rows_from, tail_start
from tui.sources.linetext import line_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture(scope="module")
def mixed() -> list[bytes]:
    """Lines of every kind of length: empty, short, around a block, over the cap, several blocks."""
    seeded = random.Random(7)
    lengths = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES] * 2 + [0] * 500
    lengths += [seeded.randrange(300) for _ in range(3000)]
    seeded.shuffle(lengths)
    return [(b"%d " % place * (length // 2 + 1))[:length] for place, length in enumerate(lengths)]


def filled(index: LineIndex, limit: int = lineindex.GROW_BYTES) -> LineIndex:
    while index.grow(limit):
        pass
    return index


@pytest.mark.parametrize("grow", [10_000, BLOCK_BYTES, lineindex.GROW_BYTES])
def test_every_line_of_a_mixed_file(path: Path, mixed: list[bytes], grow: int) -> None:
    path.write_bytes(b"\n".join(mixed) + b"\nunfinished")
    want = [*map(line_text, mixed), "unfinished"]
    with filled(LineIndex.open(path), grow) as index:
        assert (index.count, index.complete, index.scanned) == (len(want), len(want) - 1, path.stat().st_size)
        assert index.read(0, len(want) + 1) == want
        for first in range(0, len(want), 97):
            rows = index.rows(first, 40)
            assert [row.text for row in rows] == want[first : first + 40]
            assert [index.line_at(row.offset) for row in rows] == list(range(first, first + len(rows)))
        assert index.read(len(want), 1) == index.read(-1, 1) == index.read(0, 0) == []
        assert index.line_at(index.scanned) is index.line_at(-1) is None


@pytest.mark.parametrize("ending", [b"", b"\n", b"\nunfinished"])
def test_the_end_without_an_index_and_upwards_page_by_page(path: Path, mixed: list[bytes], ending: bytes) -> None:
    path.write_bytes(b"\n".join(mixed) + ending)
    want = [*map(line_text, mixed)] + (["unfinished"] if ending.strip() else [])
    with LineIndex.open(path) as index:
        rows = index.tail(30)
        assert [row.text for row in rows] == want[-30:]
        while more := index.tail(211, before=rows[0].offset):
            rows = more + rows
        assert index.scanned == 0
        filled(index)
        assert [row.text for row in rows] == want
        assert [index.line_at(row.offset) for row in rows if row.offset < index.scanned] == list(range(len(want)))


def test_empty_and_growing(path: Path) -> None:
    path.touch()
    with LineIndex.open(path) as index:
        assert (index.grow(), index.count, index.read(0, 5), index.tail(5)) == (False, 0, [], [])
        with path.open("ab", buffering=0) as file:
            file.write(b"on")
            assert (index.grow(), index.count, index.read(0, 5)) == (False, 1, ["on"])
            file.write(b"e\n")
            assert (index.grow(), index.count, index.complete, index.read(0, 5)) == (False, 1, 1, ["one"])
            file.write(b"\n\n")
            index.grow()
            assert index.read(0, 5) == ["one", "", ""]


def test_reads_only_what_is_indexed(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    with LineIndex.open(path) as index:
        assert index.grow(6)
        assert (index.count, index.read(0, 9)) == (2, ["one", "tw"])


def test_leading_nuls_are_no_text(path: Path) -> None:
    path.write_bytes(b"\0" * (3 * BLOCK_BYTES + 5) + b"one\n\0two\n")
    with LineIndex.open(path) as index:
        index.grow(2 * BLOCK_BYTES)
        assert (index.count, index.read(0, 9)) == (0, [])
        filled(index)
        assert index.read(0, 9) == ["one", "\0two"]
        assert index.find(b"one", 0) == 0
        assert [row.text for row in index.tail(9)] == ["one", "\0two"]


def test_cut_under_it(path: Path) -> None:
    path.write_bytes(b"line\n" * 50_000)
    with filled(LineIndex.open(path)) as index:
        os.truncate(path, 12)
        assert set(index.read(0, 5)) <= {"line", "li"}
        for first in (1, 2, 3, 14_000, 49_999):
            assert set(index.read(first, 5)) <= {"line", "li", ""}
        assert index.find(b"line", 49_000) is None
        assert (index.grow(), index.cut) == (False, True)


def test_a_renamed_file_stays_readable(path: Path) -> None:
    path.write_bytes(b"one\n")
    with LineIndex.open(path) as index:
        path.unlink()
        assert index.grow() is False
        assert index.read(0, 1) == ["one"]


def test_reading_while_another_thread_indexes(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(300_000)))
    wrong: list[object] = []
    with LineIndex.open(path) as index:
        done = threading.Event()

        def look() -> None:
            seeded = random.Random(3)
            while not done.is_set():
                if complete := index.complete:
                    first = seeded.randrange(complete)
                    lines = index.read(first, 3)[: complete - first]
                    if lines != [f"line {number}" for number in range(first, first + len(lines))] or not lines:
                        wrong.append((first, lines))

        reader = threading.Thread(target=look)
        reader.start()
        filled(index, 10_000)
        done.set()
        reader.join()
        assert wrong == []
        assert index.count == 300_000


@given(st.lists(st.booleans(), min_size=1).filter(any), st.data())
def test_nth_newline(bits: list[bool], data: st.DataObject) -> None:
    block = bytes(10 if bit else 120 for bit in bits)
    places = [place for place, byte in enumerate(block) if byte == 10]
    n = data.draw(st.integers(1, len(places)))
    assert nth_newline(block, n) == places[n - 1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"\n", b"ab", b"needle", b"x" * 9, b"\r", b" "]), max_size=40), st.integers(0, 45))
@example([b" "] * 8 + [b"ab"] + [b" "] * 10, 0)  # the slice that ends the line begins with ab
@example([b" "] * 8 + [b"ab"] + [b" "] * 30, 0)  # so does one that ends inside the line
def test_small_blocks_seek_and_search_like_a_plain_split(pieces: list[bytes], line: int) -> None:
    """With blocks of a few bytes every border case comes up; compared with splitting the whole file."""
    body = b"".join(pieces)
    lines = body.split(b"\n") if body else []
    lines = lines[:-1] if lines and not lines[-1] else lines
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in [
            (lineseek, "BLOCK_BYTES", 7),
            (lineindex, "BLOCK_BYTES", 7),
            (linesearch, "SLICE_BYTES", 16),
            (linesearch, "OVERLAP_BYTES", 8),
        ]:
            patch.setattr(module, name, size)
        fd = os.memfd_create("log")
        os.write(fd, body)
        with filled(LineIndex(fd), 5) as index:
            assert index.read(0, 99) == [text.decode() for text in lines]
            assert [row.text for row in index.tail(line)] == [
                text.decode() for text in lines[max(0, len(lines) - line) :]
            ]
            for pattern in (
                b"needle",
                re.compile(rb"^ab|x$"),
                re.compile(rb"\s{1,3}"),
                re.compile(rb"^$"),
                line_pattern("B"),
            ):
                found = [place for place, text in enumerate(lines) if as_pattern(pattern).search(text)]
                offsets = matching_lines(fd, pattern, 0, len(body))
                assert [index.line_at(offset) for offset in offsets] == found
                assert index.find(pattern, line) == min((place for place in found if place >= line), default=None)
                before = [place for place in found if place < line]
                assert index.find(pattern, line, forward=False) == (before[-1] if before else None)


def test_search_over_many_slices(path: Path, mixed: list[bytes]) -> None:
    marked = [line + (b" Needle" if place % 500 == 3 else b"") for place, line in enumerate(mixed)]
    path.write_bytes(b"\n".join(marked))
    want = list(range(3, len(marked), 500))
    with filled(LineIndex.open(path)) as index:
        forward, line = [], -1
        while (line := index.find(line_pattern("needle"), line + 1)) is not None:
            forward.append(line)
        backward, line = [], index.count
        while (line := index.find(line_pattern("Needle"), line, forward=False)) is not None:
            backward.append(line)
        assert (forward, backward) == (want, want[::-1])
        assert index.find(line_pattern("NEEDLE"), 0) is None


def test_search_stops_when_told(path: Path) -> None:
    path.write_bytes(b"needle\n" * 10)
    stop = threading.Event()
    with filled(LineIndex.open(path)) as index:
        assert index.find(b"needle", 0, stop=stop) == 0
        stop.set()
        assert index.find(b"needle", 0, stop=stop) is None
        assert index.find(b"needle", 5, forward=False, stop=stop) is None


def test_search_in_a_file_cut_meanwhile_ends(path: Path) -> None:
    path.write_bytes(b"x" * 10)
    with filled(LineIndex.open(path)) as index:
        assert list(matching_lines(index.fd, b"y", 0, 10_000_000)) == []
        assert last_matching_line(index.fd, b"y", 10_000_000) is None
        assert rows_from(index.fd, 20, 5, 10_000_000) == []
        assert tail_start(index.fd, 10_000_000, 5) == 0


def test_operator_patterns() -> None:
    assert line_pattern("a.c").search(b"xA.C")
    assert not line_pattern("a.c").search(b"abc")
    assert line_pattern("a.c", regex=True).search(b"ABC")
    assert not line_pattern("A.c", regex=True).search(b"abc")
    assert line_pattern("A", ignore_case=True).search(b"a")
    with pytest.raises(re.error):
        line_pattern("(", regex=True)


@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_the_bytes_of_lines_are_what_lies_between_them(path: Path, most: int) -> None:
    lines = [b"line %d\n" % number for number in range(200)]
    path.write_bytes(b"".join(lines) + b"unfinished")
    with filled(LineIndex.open(path)) as index:
        for first, stop in ((0, 0), (0, 200), (17, 18), (17, 150), (190, 300), (250, 300)):
            assert index.raw(first, stop, most) == b"".join(lines[first:stop])[-most:]
