"""Does speculation pay: the arithmetic, what is not enough, and where it turns over."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sglang.economics import (
    DOES_NOT,
    NOT_ENOUGH,
    PAYS,
    BatchSpeed,
    economies,
    judge,
    kv_cost,
    step_time_s,
    turns_over,
)


def speed(batch: int, tok_s: float, accept: float | None = None, spread: float = 0.02, samples: int = 12) -> BatchSpeed:
    return BatchSpeed(
        batch=batch,
        tok_s=tok_s,
        samples=samples,
        low=tok_s * (1 - spread),
        high=tok_s * (1 + spread),
        accept_len=accept,
        context_tokens=500.0,
    )


def test_step_time_of_the_story() -> None:
    # 89.5 tok/s at batch 1 is a step of 11.2 ms; with 2.5 tokens a step at 150 tok/s a step takes 16.7 ms.
    assert step_time_s(1, 89.5) == pytest.approx(0.011173, abs=1e-6)
    assert step_time_s(1, 150.0, 2.5) == pytest.approx(0.016667, abs=1e-6)
    assert step_time_s(8, 800.0) == pytest.approx(0.01)
    for nothing in (step_time_s(0, 10.0), step_time_s(1, 0.0), step_time_s(1, math.nan), step_time_s(1, -3.0)):
        assert nothing is None


def test_it_pays_above_the_break_even() -> None:
    found = judge(1, speed(1, 89.5), speed(1, 150.0, 2.5))
    assert found.verdict == PAYS
    assert found.break_even == pytest.approx(2.5 * 89.5 / 150.0)
    assert found.accept_len is not None
    assert found.accept_len > found.break_even
    assert found.speed_up == pytest.approx(150.0 / 89.5)
    assert "+68%" in found.text
    assert "2.50 against 1.49 to break even" in found.text


def test_it_does_not_pay_below_it() -> None:
    found = judge(32, speed(32, 1400.0), speed(32, 1100.0, 1.4))
    assert found.verdict == DOES_NOT
    assert found.break_even is not None
    assert found.break_even > 1.4
    assert "does not pay, -21%" in found.text


def test_a_difference_within_the_spread_is_none() -> None:
    found = judge(8, speed(8, 500.0, spread=0.1), speed(8, 520.0, 2.0, spread=0.1))
    assert found.verdict == DOES_NOT
    assert "no difference beyond the spread" in found.text


@pytest.mark.parametrize(
    ("plain", "spec", "words"),
    [
        (None, speed(1, 150.0, 2.5), "no throughput was measured without speculation"),
        (speed(1, 89.5), None, "no throughput was measured with speculation"),
        (speed(1, 89.5), speed(1, 150.0), "no throughput was measured with speculation"),  # no accept length
        (speed(1, 89.5, samples=1), speed(1, 150.0, 2.5), "only 1 sample; 3 are needed"),
        (speed(1, 0.0), speed(1, 150.0, 2.5), "without speculation"),
    ],
)
def test_what_is_not_enough(plain: BatchSpeed | None, spec: BatchSpeed | None, words: str) -> None:
    found = judge(1, plain, spec)
    assert found.verdict == NOT_ENOUGH
    assert words in found.text
    assert found.speed_up is None or found.verdict == NOT_ENOUGH


def test_other_contexts_are_not_compared() -> None:
    long = BatchSpeed(batch=1, tok_s=150.0, samples=12, accept_len=2.5, context_tokens=30_000.0)
    found = judge(1, speed(1, 89.5), long)
    assert found.verdict == NOT_ENOUGH
    assert "not comparable" in found.text


def test_where_it_turns_over() -> None:
    plain = {1: speed(1, 90.0), 8: speed(8, 550.0), 32: speed(32, 1400.0)}
    spec = {1: speed(1, 150.0, 2.5), 8: speed(8, 600.0, 2.5), 32: speed(32, 1100.0, 2.5)}
    found = economies(plain, spec)
    assert [one.verdict for one in found] == [PAYS, PAYS, DOES_NOT]
    turn = turns_over(found)
    assert turn is not None
    assert 8 < turn < 32
    assert turns_over(found[:2]) is None
    assert turns_over(found[2:]) is None
    assert turns_over(()) is None


def test_what_the_cache_lost() -> None:
    assert kv_cost(100_000, 84_000) == "Speculation cost 16 000 KV tokens (16%): 84 000 of 100 000 left."
    assert kv_cost(100_000, 100_000).startswith("Speculation cost no KV tokens")
    assert kv_cost(None, 5) == ""
    assert kv_cost(5, None) == ""


@settings(max_examples=60)
@given(
    batch=st.integers(1, 256),
    plain_tok_s=st.floats(1.0, 1e5),
    spec_tok_s=st.floats(1.0, 1e5),
    accept=st.floats(1.0, 16.0),
)
def test_break_even_and_speed_up_agree(batch: int, plain_tok_s: float, spec_tok_s: float, accept: float) -> None:
    """L beats T_s / T_0 exactly when more tokens come in a second."""
    found = judge(batch, speed(batch, plain_tok_s, spread=0.0), speed(batch, spec_tok_s, accept, spread=0.0))
    assert found.break_even is not None
    assert found.speed_up == pytest.approx(accept / found.break_even)
    if abs(spec_tok_s / plain_tok_s - 1) > 1e-9:
        assert (found.verdict == PAYS) == (spec_tok_s > plain_tok_s)
