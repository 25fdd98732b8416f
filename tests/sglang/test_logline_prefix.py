"""Prefixes: SGLang's own, damaged ones, and those of whatever carried the log."""

import json
import time

import pytest

from tui.facts import DecodeBatch, LoadProgress, PoolEnd
from tui.sglang.grammar import MOST_RANKS
from tui.sglang.prefix import Splitter, quick_record, rank_of

MESSAGE = "Memory pool end. avail mem=2.09 GB"
AT = time.mktime((2026, 11, 29, 12, 0, 0, 0, 0, -1))


def _pools(read, *lines):
    return [fact for fact in read(list(lines)) if isinstance(fact, PoolEnd)]


@pytest.mark.parametrize(
    ("tags", "rank"),
    [
        ("", None),
        (" TP0", "TP0"),
        (" DP1 TP3", "DP1 TP3"),
        (" DP0 TP0 EP0 PP0", "DP0 PP0 TP0"),
        (" DP0 PP1 TP3 EP3", "DP0 PP1 TP3"),
        (" DP0 PP1 ATTN_CP0 MOE_DP2 TP3 EP3", "DP0 PP1 TP3"),
        (" TP3 DP1", "DP1 TP3"),
        (" TP10 EP10", "TP10"),
        (" EP4", None),
    ],
)
def test_tags_in_any_order(read, tags, rank):
    (fact,) = _pools(read, f"[2026-11-29 12:00:00{tags}] {MESSAGE}")
    assert (fact.rank, fact.at, fact.avail_gib) == (rank, AT, 2.09)
    assert rank_of(tags) == rank


@pytest.mark.parametrize(
    "line",
    [
        f"[2026-11-29 12:00:00.250 TP0] {MESSAGE}",
        f"2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"[2026-11-29 12:00:00 TP0 {MESSAGE}",
        f"26-11-29 12:00:00 TP0] {MESSAGE}",
        f"[12:00:00 TP0] {MESSAGE}",
        f"[11-29 12:00:00 TP0] {MESSAGE}",
        f"sglang-1  | [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"HOST-[2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"[pod/sglang-0/main] [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"sglang-0 main [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"2026-11-29T12:00:00.123456789Z [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"2026-11-29T12:00:00.123456789Z stderr F [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"Nov 29 12:00:00 gpu-node sglang[4242]: [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"0: [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f" 3: [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"\x1b[36m(Actor pid=4242, ip=10.0.0.7)\x1b[0m [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"[36m(SGLangWorker pid=4242)[0m [2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"\x1b[32m[2026-11-29 12:00:00 TP0]\x1b[0m {MESSAGE}",
        f"  0%|          | 0/13 [00:00<?, ?it/s][2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"[2026-11-29 12:00:00 TP1] Using KV cache dtype: x[2026-11-29 12:00:00 TP0] {MESSAGE}",
        f"bar 1\rbar 2\r[2026-11-29 12:00:00 TP0] {MESSAGE}\r",
    ],
)
def test_damaged_and_carried_lines(read, line):
    (fact,) = _pools(read, line)
    assert (fact.rank, fact.avail_gib) == ("TP0", 2.09)


def test_docker_json_lines(read):
    line = json.dumps({"log": f"[2026-11-29 12:00:00 TP0] {MESSAGE}\n", "stream": "stderr"})
    (fact,) = _pools(read, line)
    assert (fact.rank, fact.at) == ("TP0", AT)


def test_line_without_a_stamp(read):
    (fact,) = _pools(read, MESSAGE)
    assert (fact.rank, fact.line, fact.at) == (None, 1, 1_800_000_000.0)


def test_a_line_without_a_stamp_has_the_time_of_the_last_stamp(read):
    bar = "Loading pt checkpoint shards: 100% Completed | 1/1 [00:00<00:00,  2.40it/s]"
    facts = read(["[2026-11-29 11:59:00] a line nobody knows", "[2026-11-29 12:00:00] another", "", bar])
    assert [(type(fact), fact.at) for fact in facts] == [(LoadProgress, AT)]


def test_time_of_day_alone_does_not_make_a_date(read):
    first, second = _pools(read, f"[01:30:48] {MESSAGE}", f"[2026-11-29 12:00:00] {MESSAGE}")
    assert (first.at, second.at) == (1_800_000_000.0, AT)


@pytest.mark.parametrize(
    "line",
    [
        "Loading: 3/16 [00:06<00:00,  2.10it/s]",
        "INFO 03-06 10:05:08 __init__.py:190] Automatically detected platform cuda.",
        "it took from 12:00:00 to 12:00:05 [sic]",
        "[E1129 12:00:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 3] text",
        "[2026-99-99 12:00:00 TP0] a date that is none",
    ],
)
def test_no_stamp_is_seen_where_there_is_none(line):
    assert all(record.at is None for record in Splitter().split(line))


def test_glued_records_keep_their_own_ranks(read):
    line = f"[2026-11-29 12:00:00 TP0] {MESSAGE}[2026-11-29 12:00:01 DP1 TP1] {MESSAGE}"
    first, second = _pools(read, line)
    assert [(fact.rank, fact.line, fact.at) for fact in (first, second)] == [("TP0", 1, AT), ("DP1 TP1", 1, AT + 1)]


def test_words_of_a_transport_are_learned_from_two_stamped_lines():
    splitter = Splitter()
    for _ in range(2):
        splitter.split(f"gpu7 main [2026-11-29 12:00:00] {MESSAGE}")
    assert splitter.split('gpu7 main   File "x.py", line 2, in f')[0].message == '  File "x.py", line 2, in f'


def test_the_quick_way_agrees_with_the_thorough_way():
    for tags in ("", " TP0", " DP0 TP1 EP1"):
        line = f"[2026-11-29 12:00:00{tags}] {MESSAGE}"
        assert [quick_record(line)] == Splitter().split(line)
    for line in ("", "[", "[2026-11-29 12:00:00.250 TP0] x", "[2026-11-29 25:00:00] x", "x" * 200 + "] y"):
        assert quick_record(line) is None


@pytest.mark.parametrize("message", [MESSAGE, "Decode batch, #running-req: 1, #token: 9, token usage: 0.00, gen"])
def test_of_invented_ranks_no_more_are_told_than_a_cluster_may_have(read, message):
    lines = [f"[2026-11-29 12:00:00 TP{number}] {message}" for number in range(MOST_RANKS + 500)]
    ranks = {fact.rank for fact in read([*lines, lines[3]]) if isinstance(fact, PoolEnd | DecodeBatch)}
    assert len(ranks) == MOST_RANKS
    assert "TP3" in ranks
