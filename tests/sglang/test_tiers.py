"""Defaults by card size, capture lists, speculative defaults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sglang.memknobs import MemoryKnobs, ModelTraits
from tui.sglang.speculation import (
    auto_speculative_params,
    draft_tokens,
    running_requests_setting,
    speculative_params,
    surcharge_mib,
)
from tui.sglang.tiers import (
    cuda_graph_max_bs,
    decode_capture_list,
    default_chunked_prefill_size,
    default_cuda_graph_max_bs,
    prefill_buckets,
    prefill_graph_max_tokens,
)
from tui.sglang.versions import parse_version


def v(text):
    parsed = parse_version(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("version", "card", "chunk", "narrow", "wide"),
    [
        ("0.4.6", 24564, 2048, 8, 80),
        ("0.4.6", 81920, 8192, None, None),
        ("0.4.7", 24564, 2048, 8, 80),
        ("0.5.2", 81920, 8192, None, None),
        ("0.5.2", 183359, 16384, None, None),
        ("0.5.2", None, 4096, None, None),
        ("0.5.3", 16384, 2048, 8, 8),
        ("0.5.3", 24564, 2048, 16, 80),
        ("0.5.4", 24564, 2048, 24, 80),
        ("0.5.19", 24564, 2048, 24, 80),
        ("0.5.20", 24564, 4096, 48, 160),
        ("0.5.9", 46068, 4096, 32, 160),
        ("0.5.9", 81559, 8192, 256, 512),
        ("0.5.9", 97887, 8192, 256, 512),
        ("0.5.9", 143771, 8192, 256, 512),
        ("0.5.23", 183359, 16384, 512, 512),
        ("0.5.23", None, 4096, 160, 160),
    ],
)
def test_tiers(version, card, chunk, narrow, wide):
    assert default_chunked_prefill_size(v(version), card) == chunk
    assert default_cuda_graph_max_bs(v(version), card, 2) == narrow
    assert default_cuda_graph_max_bs(v(version), card, 4) == wide


def test_pd_mode_of_0_4_6_takes_large_chunks():
    assert default_chunked_prefill_size(v("0.4.6"), 81920, disaggregated=True) == 16384


def test_graph_batch_in_force():
    assert cuda_graph_max_bs(v("0.5.9"), 97887, MemoryKnobs(cuda_graph_bs=(1, 8, 4), cuda_graph_max_bs=64)) == 8
    limited = MemoryKnobs(tp_size=8, max_running_requests=64)
    assert cuda_graph_max_bs(v("0.5.21"), 97887, limited) == 512
    assert cuda_graph_max_bs(v("0.5.22"), 97887, limited) == 64
    assert cuda_graph_max_bs(v("0.5.22"), 97887, MemoryKnobs(cuda_graph_max_bs=128, max_running_requests=64)) == 128


def test_capture_lists():
    normal = decode_capture_list(v("0.5.9"), 512, speculative=False)
    assert normal[:8] == (1, 2, 4, 8, 12, 16, 24, 32)
    assert normal[-3:] == (480, 496, 512)
    speculative = decode_capture_list(v("0.5.9"), 128, speculative=True)
    assert speculative[:10] == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
    assert speculative[-2:] == (120, 128)


def test_the_maximum_is_appended_since_0_5_10():
    assert decode_capture_list(v("0.5.9"), 100, speculative=False)[-1] == 96
    assert decode_capture_list(v("0.5.10"), 100, speculative=False)[-1] == 100


def test_the_list_is_clamped_to_request_slots():
    clamped = decode_capture_list(v("0.5.14"), 512, speculative=True, slots=48)
    assert clamped[-1] == 48
    assert decode_capture_list(v("0.5.14"), 512, speculative=False, slots=50)[-2:] == (48, 50)


def test_early_lists_grow_with_the_card():
    ends = [
        decode_capture_list(v("0.5.2"), None, speculative=False, gpu_mem_mib=card)[-1]
        for card in (81920, 97887, 183359)
    ]
    assert ends == [160, 256, 512]
    assert decode_capture_list(v("0.5.2"), 80, speculative=True, gpu_mem_mib=97887)[-1] == 80


def test_every_size_without_padding():
    assert decode_capture_list(v("0.5.9"), 20, speculative=False, padding=False) == tuple(range(1, 21))


@pytest.mark.parametrize(("limit", "count"), [(2048, 42), (4096, 50), (8192, 58), (16384, 74)])
def test_prefill_bucket_counts(limit, count):
    buckets = prefill_buckets(limit)
    assert len(buckets) == count
    assert buckets[-1] == limit


@given(st.integers(4, 20_000))
def test_prefill_buckets_ascend_within_the_limit(limit):
    buckets = prefill_buckets(limit)
    assert list(buckets) == sorted(set(buckets))
    assert buckets[-1] <= limit


@given(st.sampled_from(["0.5.2", "0.5.9", "0.5.23"]), st.integers(1, 600), st.booleans(), st.integers(1, 600))
def test_capture_lists_ascend_within_slots_and_maximum(version, limit, speculative, slots):
    sizes = decode_capture_list(v(version), limit, speculative=speculative, slots=slots)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 1
    assert sizes[-1] <= min(slots, limit)


def test_prefill_graph_limit():
    mla, llama = ModelTraits(mla=True), ModelTraits(model_path="meta-llama/Llama-2-7b")
    none = MemoryKnobs()
    assert prefill_graph_max_tokens(v("0.5.22"), 8192, none, mla) == 2048
    assert prefill_graph_max_tokens(v("0.5.23"), 16384, none, mla) == 8192
    assert prefill_graph_max_tokens(v("0.5.13"), 8192, none, llama) == 4096
    assert prefill_graph_max_tokens(v("0.5.13"), 8192, MemoryKnobs(max_total_tokens=3000), ModelTraits()) == 3000
    assert prefill_graph_max_tokens(v("0.5.13"), 8192, MemoryKnobs(cuda_graph_max_bs_prefill=512), mla) == 512


@pytest.mark.parametrize(
    ("version", "algorithm", "architecture", "expected"),
    [
        ("0.5.9", "STANDALONE", None, (3, 1, 4)),
        ("0.5.9", "EAGLE", "LlamaForCausalLM", (5, 4, 8)),
        ("0.4.6", "EAGLE", "DeepseekV3ForCausalLM", (5, 4, 8)),
        ("0.4.9", "EAGLE", "DeepseekV3ForCausalLM", (3, 1, 4)),
        ("0.5.7", "EAGLE3", "KimiK25ForConditionalGeneration", (5, 4, 8)),
        ("0.5.8", "EAGLE3", "KimiK25ForConditionalGeneration", (3, 1, 4)),
        ("0.5.23", "NEXTN", "Qwen3ForCausalLM", (3, 1, 4)),
        ("0.5.23", "EAGLE", "Grok1ForCausalLM", (5, 4, 8)),
    ],
)
def test_automatic_speculative_params(version, algorithm, architecture, expected):
    found = auto_speculative_params(v(version), algorithm, architecture)
    assert found is not None
    assert (found.num_steps, found.eagle_topk, found.num_draft_tokens) == expected
    assert found.chosen_by == "sglang"


def test_speculative_params_that_are_not_known():
    assert auto_speculative_params(v("0.5.9"), "EAGLE", None) is None
    assert auto_speculative_params(v("0.5.9"), "NGRAM", "LlamaForCausalLM") is None
    assert auto_speculative_params(v("0.5.9"), None, "LlamaForCausalLM") is None


def test_top_k_one_forces_the_draft_tokens():
    knobs = MemoryKnobs(
        speculative_algorithm="EAGLE3",
        speculative_num_steps=3,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=8,
    )
    found = speculative_params(v("0.5.9"), knobs, None)
    assert found is not None
    assert found.num_draft_tokens == 4
    assert found.warning is not None
    assert draft_tokens(v("0.5.9"), knobs) == 4


def test_draft_tokens():
    tree = MemoryKnobs(
        speculative_algorithm="EAGLE3",
        speculative_num_steps=2,
        speculative_eagle_topk=4,
        speculative_num_draft_tokens=4,
    )
    assert draft_tokens(v("0.5.9"), tree) == 4
    assert draft_tokens(v("0.5.9"), MemoryKnobs(speculative_algorithm="NGRAM")) == 12
    assert draft_tokens(v("0.5.9"), MemoryKnobs()) == 0


@pytest.mark.parametrize(
    ("algorithm", "given_value", "expected"),
    [(None, None, None), (None, 100, 100), ("EAGLE3", None, 48), ("NGRAM", None, 48), ("EAGLE3", 200, 200)],
)
def test_running_requests_with_speculation(algorithm, given_value, expected):
    knobs = MemoryKnobs(speculative_algorithm=algorithm, max_running_requests=given_value)
    assert running_requests_setting(knobs) == expected


def test_surcharge_needs_an_era():
    with pytest.raises(ValueError, match=r"0\.4\.5"):
        surcharge_mib(v("0.4.5"), "EAGLE")
