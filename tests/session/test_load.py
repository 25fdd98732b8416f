"""The load: endpoints beat the log while they are fresh, ranks add up, the plot stays bounded."""

import pytest

from tui.facts import DecodeBatch, Loads, Metrics, PrefillBatch, RankLoad, RankMetrics
from tui.session.load import FRESH_S, MOST_POINTS, LoadFold


def decode(at: float, tok_s: float, rank: str | None = None, **more) -> DecodeBatch:
    return DecodeBatch(at=at, line=1, rank=rank, gen_tok_s=tok_s, **more)


def test_data_parallel_ranks_add_up_and_the_fullest_pool_counts():
    fold = LoadFold()
    fold.decode(decode(1, 50, "DP0", running=2, queue=1, token_usage=0.2, accept_len=2.0))
    fold.decode(decode(1, 70, "DP1", running=3, queue=0, token_usage=0.9, accept_len=3.0))
    load = fold.now(1)
    assert (load.gen_tok_s, load.running, load.queue, load.token_usage, load.accept_len) == (120, 5, 1, 0.9, 2.5)


def test_a_fresh_endpoint_beats_the_log_and_a_stale_one_does_not():
    fold = LoadFold()
    fold.loads(Loads(at=10, loads=(RankLoad(dp_rank=0, gen_tok_s=0.0, running=0),)))
    fold.decode(decode(11, 80))
    assert fold.now(11).gen_tok_s == 0.0
    assert fold.now(10 + FRESH_S + 1).gen_tok_s == 80


def test_the_accept_length_of_the_last_interval_is_taken_not_the_lifetime_mean():
    fold = LoadFold()
    fold.decode(decode(9, 80, accept_len=2.5))
    fold.loads(Loads(at=10, loads=(RankLoad(dp_rank=0, gen_tok_s=80.0, accept_len=1.1),)))
    assert fold.now(10).accept_len == 2.5
    fold.metrics(
        Metrics(at=10, ranks=(RankMetrics(dp_rank=0, values={"gen_throughput": 80, "spec_accept_length": 2.7}),))
    )
    fold.loads(Loads(at=11, loads=(RankLoad(dp_rank=0, gen_tok_s=80.0, accept_len=1.1),)))
    assert fold.now(11).accept_len == 2.7


def test_an_idle_server_has_no_accept_length():
    fold = LoadFold()
    fold.decode(decode(9, 80, accept_len=2.5))
    fold.loads(Loads(at=10, loads=(RankLoad(dp_rank=0, gen_tok_s=0.0),)))
    assert fold.now(10).accept_len is None


def test_the_gauge_that_reads_zero_without_speculation_is_no_accept_length():
    fold = LoadFold()
    fold.metrics(
        Metrics(at=1, ranks=(RankMetrics(dp_rank=None, values={"gen_throughput": 9.0, "spec_accept_length": 0}),))
    )
    assert fold.now(1).accept_len is None


def test_a_prefill_line_keeps_the_last_speed():
    fold = LoadFold()
    fold.decode(decode(1, 80, running=1))
    fold.prefill(PrefillBatch(at=2, line=2, running=4, queue=7))
    load = fold.now(2)
    assert (load.gen_tok_s, load.running, load.queue) == (80, 4, 7)


def test_one_point_a_second_the_newest():
    fold = LoadFold()
    for at, speed in ((1.0, 10), (1.4, 11), (2.1, 12)):
        fold.decode(decode(at, speed))
    assert [point.gen_tok_s for point in fold.points] == [11, 12]


def test_points_stay_bounded_in_order_and_the_newest_keep_their_second():
    fold = LoadFold()
    for second in range(5 * MOST_POINTS):
        fold.decode(decode(second, second))
    times = [point.at for point in fold.points]
    assert len(times) <= MOST_POINTS
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-100:] == pytest.approx(range(5 * MOST_POINTS - 100, 5 * MOST_POINTS))
