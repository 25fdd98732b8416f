"""The memory equation: the worked case, servers' own logs, and what must always hold."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sglang.budget import (
    PoolInputs,
    available_after_weights_gib,
    ceil3,
    first_working_fraction,
    floor_fraction,
    fraction_for_tokens,
    inflation,
    mm_reservation,
    rest_gib,
    size_pool,
    slack_gib,
)
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.slots import estimated_slots, request_slots, request_table_bytes
from tui.sglang.startorder import PaidFrom, slack_contents, start_order
from tui.sglang.statepool import state_pool, state_slots_per_request, swa_tokens
from tui.sglang.versions import parse_version

GIB = 1 << 30
P, W, A = 94.08, 72.33, 21.75
MLA, GQA = 70_272, 48_128


def v(text):
    parsed = parse_version(text)
    assert parsed is not None
    return parsed


def inputs(fraction=0.85, version="0.5.9", cell=MLA, **changes):
    made = PoolInputs(version=v(version), free_before_gib=P, available_gib=A, fraction=fraction, cell_bytes=cell)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("fraction", "slack", "rest", "mla", "gqa"),
    [
        (0.76, 22.58, -0.83, -12_671, -18_500),
        (0.765, 22.11, -0.36, None, None),
        (0.768, 21.83, -0.08, None, None),
        (0.769, 21.73, 0.02, 267, 390),
        (0.77, 21.64, 0.11, 1_705, 2_489),
        (0.78, 20.70, 1.05, 16_080, 23_479),
        (0.80, 18.82, 2.93, 44_830, 65_457),
        (0.85, 14.11, 7.64, 116_707, 170_404),
        (0.88, 11.29, 10.46, None, None),
        (0.90, 9.41, 12.34, None, None),
    ],
)
def test_worked_case(fraction, slack, rest, mla, gqa):
    for cell, tokens in ((MLA, mla), (GQA, gqa)):
        found = size_pool(inputs(fraction, cell=cell))
        assert round(found.slack_gib, 2) == slack
        assert round(found.rest_gib, 2) == rest
        assert found.fits is (rest > 0)
        if tokens is not None:
            assert found.tokens == tokens


def test_automatic_value_with_eagle_leaves_less_than_nothing():
    assert round(rest_gib(P, A, 0.7596298), 2) == -0.86
    assert round(rest_gib(P, A, 0.7714565), 2) == 0.25
    assert round(rest_gib(P, A, 0.7787343), 2) == 0.93


def test_floor_and_first_working():
    assert round(floor_fraction(P, A), 4) == 0.7688
    assert ceil3(floor_fraction(P, A)) == 0.769
    assert first_working_fraction(inputs(0.1)) == 0.769


@pytest.mark.parametrize(("draft", "floor"), [(0.5, 0.7741), (1, 0.7794), (1.5, 0.7848), (2, 0.7901), (3, 0.8007)])
def test_floor_with_the_draft_in_the_budget(draft, floor):
    available = available_after_weights_gib(v("0.5.14"), P, W, draft, "EAGLE3")
    assert round(floor_fraction(P, available), 4) == floor
    assert available_after_weights_gib(v("0.5.13"), P, W, draft, "EAGLE3") == pytest.approx(A)
    assert available_after_weights_gib(v("0.5.14"), P, W, None, "NGRAM") == pytest.approx(A)
    assert available_after_weights_gib(v("0.5.14"), P, W, draft, "FROZEN_KV_MTP") == pytest.approx(A)


def test_draft_size_is_needed_from_0_5_14_on():
    with pytest.raises(ValueError, match="draft"):
        available_after_weights_gib(v("0.5.14"), P, W, None, "EAGLE3")
    with pytest.raises(ValueError, match=r"0\.4\.0"):
        available_after_weights_gib(v("0.4.0"), P, W, None, None)


def test_floors_that_servers_printed():
    before = 125.65 + 12.25
    assert floor_fraction(before, 12.25) == pytest.approx(0.9113, abs=1.5e-4)
    assert floor_fraction(before, 12.25 - 3.07) == pytest.approx(0.9335, abs=1.5e-4)


@pytest.mark.parametrize(
    ("before", "available", "kv", "fraction"), [(176.25, 161.94, 134.46, 0.844), (22.39, 7.37, 4.66, 0.879)]
)
def test_fraction_read_back_from_pool_sizes(before, available, kv, fraction):
    assert round(1 - (available - kv) / before, 3) == fraction
    assert rest_gib(before, available, fraction) == pytest.approx(kv, abs=before * 5e-4)


def test_ceil3_keeps_a_value_with_three_digits():
    assert [ceil3(value) for value in (0.769, 0.7690001, 0.7688, 0.1 + 0.2)] == [0.769, 0.77, 0.769, 0.3]


def test_multimodal_reservation():
    assert mm_reservation(v("0.5.17"), multimodal=True) == 0
    assert mm_reservation(v("0.5.18"), multimodal=False) == 0
    assert mm_reservation(v("0.5.18"), multimodal=True) == pytest.approx(100 / 1024)
    assert mm_reservation(v("0.5.18"), multimodal=True, feature_transport="cuda_ipc") == pytest.approx(1124 / 1024)
    assert size_pool(inputs(0.769, mm_reservation_gib=0.1)).fits is False


def test_page_alignment_and_cap():
    assert size_pool(inputs(0.85, page_size=64)).tokens == 116_707 // 64 * 64
    capped = size_pool(inputs(0.85, page_size=64, knobs=MemoryKnobs(max_total_tokens=1000)))
    assert (capped.tokens, capped.capped) == (960, True)
    assert size_pool(inputs(0.85, knobs=MemoryKnobs(max_total_tokens=10**6))).capped is False
    assert size_pool(inputs(0.769, page_size=512)).fits is False


def eagle(steps, topk, tokens, running=None):
    return MemoryKnobs(
        speculative_algorithm="EAGLE3",
        speculative_num_steps=steps,
        speculative_eagle_topk=topk,
        speculative_num_draft_tokens=tokens,
        max_running_requests=running,
    )


def test_tokens_on_top_of_the_pool_until_0_5_6():
    assert inflation(v("0.5.6"), 48, eagle(3, 1, 4)) == 436
    assert inflation(v("0.5.6"), 48, eagle(5, 4, 8)) == 1444
    assert inflation(v("0.5.7"), 48, eagle(5, 4, 8)) == 0
    assert inflation(v("0.5.6"), 48, MemoryKnobs(speculative_algorithm="NGRAM")) == 0
    assert inflation(v("0.5.6"), 48, MemoryKnobs(speculative_algorithm="EAGLE")) is None


@pytest.mark.parametrize(
    ("knobs", "passes"),
    [
        (eagle(3, 1, 4), False),
        (eagle(3, 1, 4, 1795), False),
        (eagle(3, 1, 4, 1797), True),
        (eagle(5, 4, 8, 448), False),
        (eagle(5, 4, 8, 450), True),
    ],
)
def test_a_negative_profile_may_pass_until_0_5_6(knobs, passes):
    assert size_pool(inputs(0.76, version="0.5.6", knobs=knobs)).fits is passes
    assert size_pool(inputs(0.76, version="0.5.7", knobs=knobs)).fits is False


@pytest.mark.parametrize(
    ("version", "tokens", "knobs", "expected"),
    [
        ("0.5.9", 100_000, MemoryKnobs(), 2048),
        ("0.5.9", 100_000, MemoryKnobs(max_running_requests=9000), 9000),
        ("0.5.9", 100_000, MemoryKnobs(speculative_algorithm="EAGLE"), 48),
        ("0.5.10", 1_000, MemoryKnobs(), 500),
        ("0.5.13", 10**7, MemoryKnobs(max_running_requests=9000), 4096),
        ("0.5.14", 10**7, MemoryKnobs(max_running_requests=9000), 9000),
        ("0.5.14", 1_000, MemoryKnobs(max_running_requests=9000), 500),
        ("0.5.14", 10**6, MemoryKnobs(max_running_requests=64, enable_dp_attention=True, dp_size=8, tp_size=8), 8),
    ],
)
def test_request_slots(version, tokens, knobs, expected):
    assert request_slots(v(version), tokens, 131_072, knobs) == expected
    assert request_slots(v(version), tokens, 131_072, knobs, state_limit=5) == 5


def test_slot_estimate_is_bounded():
    assert [estimated_slots(tokens, 4096) for tokens in (-5, 100, 20_000, 10**7)] == [2048, 2048, 2500, 4096]


@pytest.mark.parametrize(
    ("slots", "context", "gib"),
    [(2048, 131_072, 1.00), (2048, 262_144, 2.00), (4096, 1 << 20, 16.0), (48, 131_072, 0.02)],
)
def test_request_table(slots, context, gib):
    assert request_table_bytes(slots, context) / GIB == pytest.approx(gib, rel=0.01, abs=0.005)


def test_request_table_is_reported_with_the_pool():
    found = size_pool(inputs(0.85, context_len=262_144))
    assert found.request_slots == 2048
    assert found.request_table_gib == pytest.approx(2.0, rel=0.01)
    assert size_pool(inputs(0.85)).request_slots is None
    speculative = size_pool(inputs(0.85, context_len=262_144, knobs=eagle(2, 4, 4)))
    assert speculative.request_slots == 48
    assert speculative.request_table_gib == pytest.approx(0.05, abs=0.01)


def test_state_pool_splits_by_ratio():
    found = state_pool(v("0.5.9"), 19.0, 100 << 20, MemoryKnobs())
    assert found.slots == int(9 * GIB // (100 << 20))
    assert found.request_limit == found.slots // 3
    assert found.state_gib + found.rest_gib == pytest.approx(19.0)


def test_state_pool_explicit_and_without_radix_cache():
    explicit = MemoryKnobs(max_mamba_cache_size=64, enable_dp_attention=True, dp_size=2, tp_size=4)
    assert state_pool(v("0.5.9"), 19.0, 1 << 20, explicit).slots == 32
    plain = MemoryKnobs(disable_radix_cache=True, max_running_requests=40)
    found = state_pool(v("0.5.9"), 19.0, 1 << 20, plain)
    assert (found.slots, found.request_limit) == (40, 40)


def test_state_pool_with_speculation():
    per_request, knobs = 50 << 20, MemoryKnobs(speculative_algorithm="EAGLE")
    early = state_pool(v("0.5.13"), 40.0, per_request, knobs, draft_tokens=4)
    reserved = 48 * 4 * per_request
    assert early.slots == int((40 * GIB - reserved) * 0.9 / 1.9 // per_request)
    joint = state_pool(v("0.5.14"), 40.0, per_request, knobs, draft_tokens=4)
    assert joint.slots == int(40 * GIB * 0.9 / 1.9 // (per_request * (1 + 4 / 3)))
    padded = state_pool(v("0.5.17"), 40.0, per_request, knobs, draft_tokens=4)
    assert padded.slots == int((40 * GIB * 0.9 / 1.9 - per_request * 5) // (per_request * (1 + 4 / 3)))
    for found in (early, joint, padded):
        assert found.state_gib + found.rest_gib == pytest.approx(40.0)


def test_state_slots_per_request():
    extra = MemoryKnobs(mamba_scheduler_strategy="extra_buffer")
    speculative = replace(extra, speculative_algorithm="EAGLE")
    assert state_slots_per_request(v("0.5.9"), MemoryKnobs(disable_radix_cache=True)) == 1
    assert state_slots_per_request(v("0.5.9"), MemoryKnobs()) == 3
    assert state_slots_per_request(v("0.5.9"), extra) == 5
    assert state_slots_per_request(v("0.5.9"), speculative) == 4
    assert state_slots_per_request(v("0.5.14"), speculative) == 5


def test_hybrid_model_keeps_state_out_of_the_kv_budget():
    plain, hybrid = size_pool(inputs(0.85)), size_pool(inputs(0.85, state_bytes_per_request=60 << 20))
    assert hybrid.state is not None
    assert hybrid.kv_budget_gib == pytest.approx(plain.kv_budget_gib - hybrid.state.state_gib)
    assert hybrid.tokens < plain.tokens
    assert size_pool(inputs(0.77, state_bytes_per_request=60 << 20)).fits is False


def test_sliding_window_tokens():
    assert swa_tokens(1000, 0.8) == 800
    assert swa_tokens(1000, 0.8, page_size=64) == 768


def names(version, algorithm):
    steps = start_order(v(version), algorithm)
    assert steps is not None
    return [step.name for step in steps]


def test_order_of_events():
    early, late = names("0.5.13", "EAGLE3"), names("0.5.14", "EAGLE3")
    assert early.index("draft weights") > early.index("target KV pool")
    assert late.index("draft weights") < late.index("target KV pool")
    assert "draft weights" not in names("0.5.14", None)
    assert "draft weights" not in names("0.5.9", "NGRAM")
    assert start_order(None, "EAGLE3") is None


def test_what_the_slack_pays():
    early, late = slack_contents(v("0.5.9"), "EAGLE3"), slack_contents(v("0.5.14"), "EAGLE3")
    assert early is not None
    assert late is not None
    assert {"draft weights", "draft KV pool", "request table"} <= set(early)
    assert "request table" in late
    assert not {"draft weights", "draft KV pool"} & set(late)
    assert slack_contents(None, None) is None
    steps = start_order(v("0.5.14"), "EAGLE3")
    assert steps is not None
    assert steps[0].paid_from is PaidFrom.BEFORE


def test_fraction_for_a_wanted_pool():
    assert fraction_for_tokens(inputs(0.1), 116_707) == 0.85
    assert fraction_for_tokens(inputs(0.1), 116_708) == 0.851
    assert fraction_for_tokens(inputs(0.1), 10**9) is None
    assert fraction_for_tokens(inputs(0.1, knobs=MemoryKnobs(max_total_tokens=100)), 101) is None
    assert first_working_fraction(inputs(0.1, available_gib=0.01)) is None


@pytest.mark.parametrize("change", [{"cell_bytes": 0}, {"free_before_gib": 0.0}])
def test_impossible_inputs_are_refused(change):
    with pytest.raises(ValueError, match="above 0"):
        size_pool(inputs(0.85, **change))


def test_floor_needs_memory():
    with pytest.raises(ValueError, match="above 0"):
        floor_fraction(0, 0)


MACHINES = st.tuples(st.floats(4, 280), st.floats(0.01, 0.99)).map(lambda pair: (pair[0], pair[0] * pair[1]))
VERSIONS = st.sampled_from(["0.4.6", "0.5.2", "0.5.6", "0.5.9", "0.5.13", "0.5.14", "0.5.18", "0.5.23"])
FRACTIONS = st.integers(1, 999).map(lambda thousandths: thousandths / 1000)
KNOBS = st.sampled_from([MemoryKnobs(), eagle(3, 1, 4), eagle(5, 4, 8, 600), MemoryKnobs(max_total_tokens=5000)])


@settings(max_examples=200)
@given(MACHINES, VERSIONS, FRACTIONS, FRACTIONS, st.integers(100, 10**6), st.sampled_from([1, 16, 64]), KNOBS)
def test_more_fraction_never_gives_fewer_tokens(machine, version, one, other, cell, page, knobs):
    base = PoolInputs(
        version=v(version),
        free_before_gib=machine[0],
        available_gib=machine[1],
        fraction=min(one, other),
        cell_bytes=cell,
        page_size=page,
        knobs=knobs,
    )
    less, more = size_pool(base), size_pool(replace(base, fraction=max(one, other)))
    assert more.tokens >= less.tokens
    assert more.fits or not less.fits


@settings(max_examples=200)
@given(MACHINES, FRACTIONS, st.floats(0, 1.5))
def test_floor_agrees_with_the_sign_of_the_rest(machine, fraction, reservation):
    before, available = machine
    floor = floor_fraction(before, available, reservation)
    rest = rest_gib(before, available, fraction, reservation)
    assert math.isclose(rest, before * (fraction - floor), abs_tol=1e-9)
    if abs(fraction - floor) > 1e-9:
        assert (rest > 0) is (fraction > floor)


@settings(max_examples=100)
@given(MACHINES, FRACTIONS)
def test_weights_budget_and_slack_sum_to_the_whole(machine, fraction):
    before, available = machine
    weights = before - available
    total = weights + rest_gib(before, available, fraction) + slack_gib(before, fraction)
    assert math.isclose(total, before, rel_tol=1e-12)


@settings(max_examples=100)
@given(MACHINES, VERSIONS, st.integers(1_000, 10**6), KNOBS)
def test_first_working_fraction_works_and_the_one_below_does_not(machine, version, cell, knobs):
    base = PoolInputs(
        version=v(version),
        free_before_gib=machine[0],
        available_gib=machine[1],
        fraction=0.5,
        cell_bytes=cell,
        knobs=knobs,
    )
    first = first_working_fraction(base)
    if first is None:
        assert not size_pool(replace(base, fraction=0.999)).fits
        return
    assert size_pool(replace(base, fraction=first)).fits
    if first > 0.001:
        assert not size_pool(replace(base, fraction=round(first - 0.001, 3))).fits


@settings(max_examples=100)
@given(
    VERSIONS,
    st.floats(1, 100),
    st.integers(1 << 20, 200 << 20),
    st.sampled_from([0, 4, 8]),
    st.booleans(),
)
def test_state_and_rest_sum_to_what_was_split(version, rest, per_request, tokens, radix_off):
    knobs = MemoryKnobs(disable_radix_cache=radix_off, speculative_algorithm="EAGLE" if tokens else None)
    found = state_pool(v(version), rest, per_request, knobs, draft_tokens=tokens)
    assert math.isclose(found.state_gib + found.rest_gib, rest, rel_tol=1e-9, abs_tol=1e-9)
