"""Searching a file's lines gives what a plain look at each line gives."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.sources import linesearch
from tui.sources.linesearch import line_pattern, matching_lines

TEXT = st.text(alphabet="aAb.* \\", min_size=1, max_size=3)
LINES = st.lists(st.text(alphabet="aAbB.* \\", max_size=12), max_size=30)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, text=TEXT, ignore_case=st.booleans())
def test_a_literal_is_found_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], text: str, ignore_case: bool
) -> None:
    monkeypatch.setattr(linesearch, "SLICE_BYTES", 64)
    path = tmp_path / "log"
    path.write_text("".join(line + "\n" for line in lines))
    starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    wanted = text.lower() if ignore_case else text
    expected = [
        start for start, line in zip(starts, lines, strict=True) if wanted in (line.lower() if ignore_case else line)
    ]
    fd = os.open(path, os.O_RDONLY)
    try:
        found = matching_lines(fd, line_pattern(text, ignore_case=ignore_case), 0, path.stat().st_size)
        assert list(found) == expected
    finally:
        os.close(fd)


@pytest.mark.parametrize(("pattern", "flags"), [(rb"a|b", 0), (rb"a.c", 0), (rb"^b", re.MULTILINE), (rb"(?i)B", 0)])
def test_a_pattern_is_not_taken_for_a_literal(tmp_path: Path, pattern: bytes, flags: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"b or axc\n")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert list(matching_lines(fd, re.compile(pattern, flags), 0, 9)) == [0]
    finally:
        os.close(fd)
