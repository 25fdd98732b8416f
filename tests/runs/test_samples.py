"""Which moments say how fast a server is, and which do not."""

import pytest

from tui.facts import DecodeBatch, Fact, Launched, Loads, Metrics, PrefillBatch, RankLoad, RankMetrics, ServerReady
from tui.session import samples
from tui.session.samples import SampleFold, fold, speed_of

READY = ServerReady(at=100.0, line=1)


def decode(at: float, tok_s: float, running: int = 1, rank: str = "TP0", accept: float | None = None) -> DecodeBatch:
    tokens = 1000 * running
    return DecodeBatch(
        at=at, line=2, rank=rank, running=running, gen_tok_s=tok_s, accept_len=accept, tokens=tokens, queue=0
    )


def prefill(at: float, rank: str = "TP0") -> PrefillBatch:
    return PrefillBatch(at=at, line=3, rank=rank, new_seq=1)


def metrics(at: float, running: int, decoded: float, more: dict[str, float] | None = None, dp: int = 0) -> Metrics:
    values = {"num_running_reqs": float(running), "realtime_tokens_total.decode": decoded, **(more or {})}
    return Metrics(at=at, ranks=(RankMetrics(dp_rank=dp, values=values),))


def log_speeds(*facts: Fact) -> list[float]:
    return [sample.tok_s for batch in fold(facts).found["log"].values() for sample in batch]


def test_what_the_log_says_before_ready_is_warm_up() -> None:
    assert log_speeds(decode(90, 5.0), decode(91, 5.0), READY, decode(101, 80.0), decode(102, 81.0)) == [80.0, 81.0]


def test_a_line_after_a_prefill_or_another_batch_is_left_out() -> None:
    facts = [
        READY,
        decode(101, 3.0),  # spans the idle time before it
        decode(102, 80.0),
        prefill(102.5),
        decode(103, 40.0),  # a prefill ran within it
        decode(104, 82.0),
        decode(105, 120.0, running=2),  # part of it at batch 1
        decode(106, 160.0, running=2),
        decode(107, 0.0, running=2),  # nothing came
    ]
    found = fold(facts).found["log"]
    assert [s.tok_s for s in found[1]] == [80.0, 82.0]
    assert [s.tok_s for s in found[2]] == [160.0]
    assert found[2][0].context_tokens == 1000


def test_ranks_are_told_apart_and_their_total_is_known() -> None:
    facts: list[Fact] = [READY]
    for at in (101.0, 102.0, 103.0):
        facts += [decode(at, 80.0, rank="DP0 TP0"), prefill(at, "DP1 TP1") if at == 102.0 else prefill(at, "DP2 TP2")]
        facts.append(decode(at + 0.5, 70.0, rank="DP1 TP1"))
    found = fold(facts)
    assert sorted(s.tok_s for s in found.found["log"][1]) == [70.0, 80.0, 80.0]
    assert found.best_total_tok_s == 150.0


def test_counters_over_windows_of_one_batch_size() -> None:
    """100 tok/s at batch 1, then idle, then 160 tok/s at batch 2: the idle time is in neither."""
    facts: list[Fact] = [READY]
    tokens = 0.0
    for i in range(12):
        facts.append(metrics(101.0 + i, 1, tokens))
        tokens += 100.0
    facts += [metrics(120.0 + i, 0, tokens) for i in range(5)]
    for i in range(12):
        facts.append(metrics(130.0 + i, 2, tokens))
        tokens += 160.0
    facts.append(metrics(150.0, 0, tokens))
    found = fold(facts).found["counters"]
    assert [s.tok_s for s in found[1]] == [pytest.approx(100.0)]
    assert [s.tok_s for s in found[2]] == [pytest.approx(160.0)]
    assert set(found) == {1, 2}


def test_a_window_with_a_prefill_or_too_short_says_nothing() -> None:
    prefilled = [
        metrics(101.0 + i, 1, 100.0 * i, {"realtime_tokens_total.prefill_compute": float(i)}) for i in range(9)
    ]
    assert fold([READY, *prefilled]).found["counters"] == {}
    short = [metrics(101.0, 1, 0.0), metrics(103.0, 1, 200.0), metrics(104.0, 0, 200.0)]
    assert fold([READY, *short]).found["counters"] == {}


def test_a_restarted_counter_is_no_negative_speed() -> None:
    facts = [READY, *(metrics(101.0 + i, 1, 1000.0 + 100 * i) for i in range(3)), metrics(104.0, 1, 50.0)]
    facts += [metrics(105.0 + i, 1, 150.0 + 100 * i) for i in range(12)]
    samples = fold(facts).found["counters"][1]
    assert [s.tok_s for s in samples] == [pytest.approx(100.0)]


def test_the_best_source_that_has_enough_is_taken() -> None:
    load = Loads(at=101.0, loads=(RankLoad(dp_rank=0, running=1, gen_tok_s=60.0, used_tokens=500),))
    only_loads = fold([READY, load])
    assert only_loads.source(1) == "loads"
    assert only_loads.speeds()[1].tok_s == 60.0
    with_log = fold([READY, load, *(decode(102.0 + i, 80.0 + i) for i in range(5))])
    assert with_log.source(1) == "log"
    assert with_log.speeds()[1].tok_s == pytest.approx(82.5)
    assert with_log.speeds()[1].samples == 4
    assert with_log.fastest(1) == 84.0


def test_accept_length_is_tokens_by_verify_calls() -> None:
    def page(at: float, generated: float, calls: float) -> Metrics:
        values = {"generation_tokens_total": generated, "spec_verify_calls_total": calls, "num_requests_total": 1.0}
        return Metrics(at=at, ranks=(RankMetrics(dp_rank=None, values=values),))

    found = fold([page(99.0, 7.0, 3.0), READY, page(101.0, 10.0, 5.0), page(110.0, 110.0, 45.0)])
    assert found.totals().accept_len == pytest.approx(100 / 40)
    assert SampleFold().totals().accept_len is None
    # A server that was restarted begins to count anew.
    again = fold([READY, page(101.0, 500.0, 100.0), page(102.0, 10.0, 5.0), page(103.0, 40.0, 15.0)])
    assert again.totals().accept_len == pytest.approx(3.0)


def test_a_launch_begins_anew() -> None:
    launched = Launched(at=200.0, run="b", profile="p", command=(), knobs={})
    facts = [READY, decode(101, 80.0), decode(102, 81.0), launched, decode(201, 10.0), decode(202, 10.0)]
    assert fold(facts).batches() == []


def test_what_is_kept_is_bounded_over_all_batch_sizes_and_the_speeds_are_of_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(samples, "_KEPT_IN_ALL", 100)
    monkeypatch.setattr(samples, "_KEPT", 40)
    found = SampleFold()
    found.apply(READY)
    for i in range(2000):
        batch = i // 2 % 30 + 1 if i < 1200 else 7
        found.apply(decode(101.0 + i, float(i + 1), running=batch))
        if i % 90 == 0:
            found.speeds()
    kept = found.found["log"]
    assert sum(map(len, kept.values())) <= 100
    assert all(kept.values())
    assert len(kept[7]) >= 100 // 30
    assert found.speeds() == {batch: speed_of(batch, kept[batch]) for batch in sorted(kept)}
