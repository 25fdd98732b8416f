"""A backlog is sifted: what says more than the throughput is read whole, of the rest a sample, and each line counts."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.facts import DecodeBatch, Fact, LogTail, PrefillBatch
from tui.feed import backlog, logreading
from tui.feed.backlog import SAMPLED_LINES, every_line, telling_lines
from tui.feed.logtask import LogTask
from tui.sources.logfile import LogFollower

STAMP = "[2026-11-29 12:00:00 TP0] "
DECODE = (
    f"{STAMP}Decode batch, #running-req: 3, #token: %d, token usage: 0.10, cuda graph: True, "
    "gen throughput (token/s): 300.00, #queue-req: 0"
)
ACCESS = '[2026-11-29 12:00:00] INFO:     127.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
RARE = [
    f"{STAMP}Scheduler hit an exception: Traceback (most recent call last):",
    '  File "scheduler.py", line 1, in run',
    "RuntimeError: something of its own",
    "",
    f"{STAMP}Load weight begin. avail mem=94.08 GB",
    "a line from somewhere ü\x00",
    f"{STAMP}The server is fired up and ready to roll!",
]


def written(log: Path, dull: int) -> None:
    """A log of dull lines with a rare one here and there."""
    lines = []
    for number in range(dull):
        lines.append(ACCESS if number % 3 == 0 else DECODE % number)
        if number % (dull // len(RARE)) == 7:
            lines.append(RARE[number // (dull // len(RARE)) % len(RARE)])
    log.write_text("\n".join(lines) + "\n")


def read(log: Path) -> list[Fact]:
    task = LogTask(log, clock=lambda: 5.0)
    try:
        return task.read_all()
    finally:
        task.close()


def telling(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if not isinstance(fact, DecodeBatch | PrefillBatch | LogTail)]


def test_a_backlog_says_what_the_whole_says_with_fewer_lines_of_throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    written(log, 20_000)
    monkeypatch.setattr(logreading, "BACKLOG_BYTES", 1 << 40)
    whole = read(log)
    monkeypatch.setattr(logreading, "BACKLOG_BYTES", 100_000)
    monkeypatch.setattr(backlog, "BLOCK_BYTES", 20_000)
    sifted = read(log)
    assert telling(sifted) == telling(whole)
    assert len(telling(whole)) >= 3
    decoded = {fact.line: fact for fact in whole if isinstance(fact, DecodeBatch)}
    sampled = [fact for fact in sifted if isinstance(fact, DecodeBatch)]
    assert all(fact == decoded[fact.line] for fact in sampled)
    assert 0 < len(sampled) < len(decoded) / 2
    last = [fact for fact in sifted if isinstance(fact, LogTail)][-1]
    assert (last.lines, last.bytes) == (log.read_text().count("\n"), log.stat().st_size)


def test_the_sample_is_of_lines_that_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"{DECODE}\n" % number for number in range(5000)))
    monkeypatch.setattr(backlog, "BLOCK_BYTES", 100_000)
    with LogFollower(log) as follower:
        found = list(telling_lines(follower.poll()))
    numbers = [number for number, _ in found]
    gaps = [after for before, after in pairwise(numbers) if after != before + 1]
    assert numbers[-1] == 5000
    assert len(numbers) == (len(gaps) + 1) * SAMPLED_LINES
    assert all(text == DECODE % (number - 1) for number, text in found)


LINES = st.lists(
    st.one_of(
        st.sampled_from([*RARE, ACCESS, DECODE % 1]), st.text(max_size=40).map(lambda text: text.replace("\n", ""))
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(LINES, st.integers(1, 400), st.integers(1, 2000))
def test_any_lines_keep_their_numbers_and_all_that_tell_are_there(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], slice_bytes: int, block_bytes: int
) -> None:
    log = tmp_path_factory.mktemp("any") / "server.log"
    log.write_text("".join(f"{line}\n" for line in lines), newline="")
    before = backlog.BLOCK_BYTES
    backlog.BLOCK_BYTES = block_bytes
    try:
        found: list[tuple[int, str]] = []
        every: list[tuple[int, str]] = []
        with LogFollower(log, slice_bytes=slice_bytes) as follower:
            more = True
            while more:
                chunk = follower.poll()
                found += telling_lines(chunk)
                every += every_line(chunk)
                assert chunk.read == len(every)
                more = chunk.more
    finally:
        backlog.BLOCK_BYTES = before
    numbered = list(enumerate(log.read_bytes().decode().split("\n")[:-1], 1))
    # Leading NULs are the hole of a file that was cut, not its text.
    numbered = [(number, text.lstrip("\0") if number == 1 else text) for number, text in numbered]
    assert every == numbered
    assert set(found) <= set(numbered)
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    dull = {ACCESS, DECODE % 1}
    assert {number for number, text in numbered if text not in dull and not text.startswith("[20")} <= {
        number for number, _ in found
    }
