"""The automatic memory fraction, card by card and version by version."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sglang.fraction import automatic_fraction, vision_factor
from tui.sglang.memknobs import MemoryKnobs, ModelTraits, memory_knobs
from tui.sglang.versions import parse_version

KIMI = ModelTraits(mla=True, multimodal=True, vision_layers=27, vision_hidden=1152, context_len=262_144)

# card MiB, tp, then (no speculation, EAGLE) in 0.4.7 – 0.5.2, 0.5.3 – 0.5.9, 0.5.11 – 0.5.13 and 0.5.14 on (alike).
TABLE = [
    (46068, 1, (0.778, 0.733), (0.851, 0.807), (0.843, 0.754), 0.843),
    (81920, 1, (0.875, 0.850), (0.836, 0.811), (0.830, 0.780), 0.830),
    (81920, 8, (0.831, 0.806), (0.819, 0.794), (0.813, 0.763), 0.813),
    (81559, 1, (0.874, 0.849), (0.835, 0.810), (0.830, 0.779), 0.830),
    (81559, 8, (0.831, 0.805), (0.818, 0.793), (0.812, 0.762), 0.812),
    (97871, 1, (0.869, 0.848), (0.863, 0.842), (0.858, 0.816), 0.858),
    (97871, 8, (0.833, 0.812), (0.848, 0.827), (0.844, 0.802), 0.844),
    (97887, 1, (0.869, 0.848), (0.863, 0.842), (0.858, 0.816), 0.858),
    (97887, 8, (0.833, 0.812), (0.848, 0.827), (0.844, 0.802), 0.844),
    (143771, 1, (0.911, 0.897), (0.907, 0.892), (0.903, 0.875), 0.903),
    (143771, 8, (0.886, 0.872), (0.897, 0.882), (0.893, 0.865), 0.893),
    (183359, 1, (0.821, 0.810), (0.857, 0.846), (0.854, 0.831), 0.854),
    (183359, 8, (0.821, 0.810), (0.852, 0.841), (0.849, 0.826), 0.849),
]
# The card below 35 GiB, whose chunk is 2048 and batch 24 until 0.5.20 makes them 4096 and 48.
SMALL_CARD = [
    ("0.4.7", (0.879, 0.796)),
    ("0.5.2", (0.879, 0.796)),
    ("0.5.9", (0.847, 0.764)),
    ("0.5.13", (0.833, 0.667)),
    ("0.5.19", (0.833, 0.833)),
    ("0.5.20", (0.704, 0.704)),
    ("0.5.23", (0.704, 0.704)),
]


def fraction(version, gpu_mem_mib, model=None, **knobs):
    return automatic_fraction(parse_version(version), gpu_mem_mib, MemoryKnobs(**knobs), model)


def cells():
    for card, tp, era_c, era_de, era_f, era_g in TABLE:
        for versions, pair in (
            (("0.4.7", "0.5.2"), era_c),
            (("0.5.4", "0.5.9"), era_de),
            (("0.5.11", "0.5.13"), era_f),
            (("0.5.14", "0.5.23"), (era_g, era_g)),
        ):
            for version in versions:
                yield card, tp, version, None, pair[0]
                yield card, tp, version, "EAGLE", pair[1]
    for version, pair in SMALL_CARD:
        yield 24564, 1, version, None, pair[0]
        yield 24564, 1, version, "EAGLE", pair[1]


@pytest.mark.parametrize(("card", "tp", "version", "algorithm", "expected"), cells())
def test_table_of_automatic_values(card, tp, version, algorithm, expected):
    found = fraction(version, card, tp_size=tp, speculative_algorithm=algorithm)
    assert found.value == expected
    assert found.source == "automatic"


def test_0_5_10_skips_prefill_graphs_with_speculation():
    assert fraction("0.5.10", 81559, tp_size=8).value == 0.812
    assert fraction("0.5.10", 81559, tp_size=8, speculative_algorithm="EAGLE").value == 0.768


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({}, 0.7715),
        ({"cuda_graph_max_bs": 512}, 0.7715),
        ({"cuda_graph_max_bs": 128}, 0.7787),
        ({"cuda_graph_max_bs": 128, "speculative_algorithm": "EAGLE3"}, 0.7596),
    ],
)
def test_vision_model_on_eight_96_gib_cards(knobs, expected):
    found = fraction("0.5.9", 97887, KIMI, tp_size=8, **knobs)
    assert found.value is not None
    assert round(found.value, 4) == expected
    assert f"{expected:.4f}" in found.formula()
    assert "97887" in found.formula()


@pytest.mark.parametrize(
    ("gpu_mem", "tp", "version", "algorithm", "model", "digits", "expected"),
    [
        (81559, 2, "0.5.12", None, None, 3, 0.828),  # Qwen3-32B on two H100
        (275040, 8, "0.5.16", "EAGLE", ModelTraits(multimodal=True, vision_layers=24, vision_hidden=1024), 3, 0.854),
        (183359, 4, "0.5.4", "EAGLE3", None, 3, 0.844),  # four B200
        (24564, 1, "0.4.9", None, None, 3, 0.879),  # Llama-3.1-8B on a 24 GiB card
    ],
)
def test_values_that_servers_reported(gpu_mem, tp, version, algorithm, model, digits, expected):
    found = fraction(version, gpu_mem, model, tp_size=tp, speculative_algorithm=algorithm)
    assert found.value is not None
    assert round(found.value, digits) == expected


@pytest.mark.parametrize(
    ("gpu_mem", "tp", "expected"),
    [(81920, 16, 0.79), (81920, 8, 0.81), (81920, 4, 0.85), (81920, 2, 0.87), (81920, 1, 0.88), (97887, 8, 0.88)],
)
def test_table_of_0_4_6(gpu_mem, tp, expected):
    found = fraction("0.4.6", gpu_mem, tp_size=tp, speculative_algorithm="EAGLE")
    assert found.value == expected
    assert found.terms == ()


def test_0_4_6_gives_more_on_large_cards():
    assert fraction("0.4.6", 143771).value == pytest.approx(
        min(0.88 + 49152 * 0.12 / 143771, (143771 - 18432) / 143771)
    )


@pytest.mark.parametrize(
    ("version", "algorithm", "extra"),
    [
        ("0.5.2", "NGRAM", 2048),
        ("0.5.9", "NEXTN", 2048),
        ("0.5.9", "STANDALONE", 6144),
        ("0.5.9", "NGRAM", 0),
        ("0.5.13", "EAGLE3", 4096),
        ("0.5.13", "DFLASH", 4096),
        ("0.5.13", "STANDALONE", 6144),
        ("0.5.13", "NGRAM", 0),
        ("0.5.14", "STANDALONE", 0),
        ("0.5.23", "EAGLE3", 0),
    ],
)
def test_speculative_surcharge(version, algorithm, extra):
    plain, speculative = (
        fraction(version, 97887, tp_size=8, speculative_algorithm=chosen) for chosen in (None, algorithm)
    )
    assert speculative.reserve_mib - plain.reserve_mib == extra


def term(found, name):
    return dict(found.terms).get(name, 0)


@pytest.mark.parametrize(("batch", "expected"), [(200, 200 * 8 * 3), (300, 300 * 8 * 3), (304, 304 * 8 * 4.5)])
def test_dp_attention(batch, expected):
    found = fraction("0.5.9", 143771, tp_size=8, dp_size=8, enable_dp_attention=True, cuda_graph_max_bs=batch)
    assert term(found, "DP attention") == expected
    assert term(fraction("0.5.9", 143771, tp_size=8, dp_size=8, cuda_graph_max_bs=batch), "DP attention") == 0
    assert term(fraction("0.5.2", 143771, tp_size=8, dp_size=8, enable_dp_attention=True), "DP attention") == 4096


def test_pd_roles():
    prefill = fraction("0.5.16", 143771, tp_size=8, disaggregation_mode="prefill")
    assert term(prefill, "decode graphs") == 0
    assert term(prefill, "prefill graphs") == 8 * 58
    decode = fraction(
        "0.5.16",
        143771,
        tp_size=8,
        disaggregation_mode="decode",
        max_running_requests=4096,
        speculative_num_draft_tokens=4,
    )
    assert term(decode, "activations") == 1.5 * 4096 * 4
    assert term(decode, "prefill graphs") == 0
    assert term(fraction("0.5.9", 143771, tp_size=8, disaggregation_mode="prefill"), "decode graphs") == 1024


def test_deepep():
    found = fraction("0.5.18", 143771, tp_size=8, moe_a2a_backend="deepep")
    assert term(found, "DeepEP buffers") == 2048
    assert term(found, "DeepEP prefill graph") == 1024
    without_graph = fraction("0.5.18", 143771, tp_size=8, moe_a2a_backend="deepep", disable_cuda_graph=True)
    assert term(without_graph, "DeepEP buffers") == 0
    assert term(fraction("0.5.15", 143771, tp_size=8, moe_a2a_backend="deepep"), "DeepEP buffers") == 0


@pytest.mark.parametrize(
    ("version", "mla", "knobs", "expected"),
    [
        ("0.5.5", False, {"enable_piecewise_cuda_graph": True}, 0),
        ("0.5.6", False, {"enable_piecewise_cuda_graph": True}, 1024),
        ("0.5.7", False, {"enable_piecewise_cuda_graph": True}, 1024),
        ("0.5.9", False, {"enable_piecewise_cuda_graph": True}, 8 * 58),
        ("0.5.9", False, {}, 0),
        ("0.5.13", False, {}, 8 * 58),
        ("0.5.13", True, {}, 1536),
        ("0.5.13", False, {"disable_piecewise_cuda_graph": True}, 0),
        ("0.5.13", False, {"max_total_tokens": 2048}, 8 * 42),
        ("0.5.13", False, {"pp_size": 2}, 0),
        ("0.5.13", False, {"enable_dp_attention": True, "dp_size": 8}, 0),
        ("0.5.14", True, {}, 1536),
        ("0.5.14", False, {"disable_cuda_graph": True}, 0),
        ("0.5.14", False, {"cuda_graph_backend_prefill": "disabled"}, 0),
        ("0.5.14", False, {"context_length": 4096}, 8 * 50),
        ("0.5.18", False, {"context_length": 4096}, 8 * 58),
        ("0.5.23", True, {}, 1536),
    ],
)
def test_prefill_graph_term(version, mla, knobs, expected):
    found = fraction(version, 143771, ModelTraits(mla=mla), tp_size=8, **knobs)
    assert term(found, "prefill graphs") == expected


def test_multimodal_models_have_no_prefill_graphs_unless_listed():
    kimi = ModelTraits(multimodal=True, mla=True, architecture="KimiK25ForConditionalGeneration")
    assert term(fraction("0.5.14", 97887, kimi, tp_size=8), "prefill graphs") == 0
    assert term(fraction("0.5.23", 97887, kimi, tp_size=8), "prefill graphs") == 1536


def test_floor_of_ten_gib_is_a_term():
    found = fraction("0.5.9", 97887, chunked_prefill_size=2048, cuda_graph_max_bs=8)
    assert found.reserve_mib == 10240
    assert term(found, "floor of 10 GiB") > 0
    small = fraction("0.5.9", 46068, chunked_prefill_size=2048, cuda_graph_max_bs=8)
    assert term(small, "floor of 10 GiB") == 0
    assert small.reserve_mib < 10240


def test_chunked_prefill_off_takes_max_prefill_tokens():
    assert term(fraction("0.5.9", 97887, chunked_prefill_size=-1), "activations") == 1.5 * 16384
    assert term(fraction("0.5.9", 97887, chunked_prefill_size=-1, max_prefill_tokens=4096), "activations") == 1.5 * 4096


@pytest.mark.parametrize(
    ("layers", "hidden", "expected"),
    [(24, 1024, 0.95), (None, None, 0.95), (27, 1152, 0.9097), (1, 1, 0.9975), (60, 5000, 0.76)],
)
def test_vision_factor(layers, hidden, expected):
    assert round(vision_factor(layers, hidden), 4) == expected


@pytest.mark.parametrize(
    ("version", "knobs", "lowered"),
    [
        ("0.4.7", {}, False),
        ("0.4.9", {}, True),
        ("0.5.8", {"language_only": True}, True),
        ("0.5.9", {"language_only": True}, False),
        ("0.5.17", {"language_model_only": True}, True),
        ("0.5.18", {"language_model_only": True}, False),
        ("0.5.18", {"disaggregation_mode": "decode"}, False),
    ],
)
def test_when_vision_lowers_the_fraction(version, knobs, lowered):
    found = fraction(version, 97887, ModelTraits(multimodal=True), **knobs)
    assert bool(found.factors) is lowered
    assert math.isclose(found.value, found.base * (0.95 if lowered else 1))


def test_user_value_is_kept_as_given():
    found = fraction("0.5.9", 97887, KIMI, mem_fraction_static=0.85, tp_size=8)
    assert (found.value, found.source, found.terms) == (0.85, "user", ())


def test_aiter_lowers_even_the_user_value():
    long_context = ModelTraits(context_len=131_072)
    knobs = {"attention_backend": "aiter", "mem_fraction_static": 0.8}
    assert fraction("0.5.9", 97887, long_context, **knobs).value == pytest.approx(0.68)
    assert fraction("0.5.3", 97887, long_context, **knobs).value == 0.8
    assert fraction("0.5.9", 97887, long_context, context_length=8192, **knobs).value == 0.8
    for version, expected in (("0.5.18", 0.68), ("0.5.19", 0.8)):
        found = automatic_fraction(
            parse_version(version), 97887, MemoryKnobs(**knobs), long_context, honor_explicit_fraction=True
        )
        assert found.value == pytest.approx(expected)


@pytest.mark.parametrize(("version", "expected"), [("0.5.2", 0.88), ("0.5.19", 0.88), ("0.5.20", 0.95)])
def test_unknown_card(version, expected):
    found = fraction(version, None)
    assert (found.value, found.source, found.reserve_mib) == (expected, "fallback", None)
    assert found.warnings


def test_unknown_version_is_not_guessed():
    found = automatic_fraction(None, 97887, MemoryKnobs())
    assert found.value is None
    assert found.reason
    assert found.formula() == found.reason
    assert automatic_fraction(parse_version("0.4.5"), 97887, MemoryKnobs()).value is None
    assert automatic_fraction(None, 97887, MemoryKnobs(mem_fraction_static=0.7)).value == 0.7


def test_newer_version_is_reported():
    assert any("0.7.0" in warning for warning in fraction("0.7.0", 97887).warnings)


def test_post_capture_sizing():
    def sized(version, model=None):
        return automatic_fraction(
            parse_version(version), 97887, MemoryKnobs(tp_size=8), model, post_capture_kv_sizing=True
        )

    assert sized("0.5.16").reserve_mib == 512 + 1024
    assert sized("0.5.18").reserve_mib == 1536 + 1024
    vision = sized("0.5.18", ModelTraits(multimodal=True))
    assert vision.value == pytest.approx(vision.base - 8192 / 97887)
    assert sized("0.5.15").value == fraction("0.5.15", 97887, tp_size=8).value
    mla = ModelTraits(mla=True)
    assert sized("0.5.18", mla).value == fraction("0.5.18", 97887, mla, tp_size=8).value


VERSIONS = st.sampled_from(
    ["0.4.7", "0.5.2", "0.5.3", "0.5.6", "0.5.8", "0.5.10", "0.5.13", "0.5.14", "0.5.16", "0.5.23"]
)


@settings(max_examples=150)
@given(
    VERSIONS,
    st.integers(8_000, 300_000),
    st.sampled_from([None, "EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH"]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.booleans(),
    st.booleans(),
)
def test_terms_sum_to_the_reserve(version, gpu_mem, algorithm, tp, dp_attention, mla):
    found = fraction(
        version,
        gpu_mem,
        ModelTraits(mla=mla),
        tp_size=tp,
        dp_size=tp,
        enable_dp_attention=dp_attention,
        speculative_algorithm=algorithm,
    )
    assert math.isclose(sum(mib for _, mib in found.terms), found.reserve_mib)
    assert all(mib >= 0 for _, mib in found.terms)
    assert found.value == round((gpu_mem - found.reserve_mib) / gpu_mem, 3)


@settings(max_examples=100)
@given(VERSIONS, st.integers(36_000, 300_000), st.integers(1, 400), st.integers(0, 400))
def test_larger_graphs_never_raise_the_fraction(version, gpu_mem, batch, more):
    small, large = (fraction(version, gpu_mem, cuda_graph_max_bs=size).value for size in (batch, batch + more))
    assert large <= small


def test_knobs_take_old_and_new_names():
    old = memory_knobs({"tp": 8, "cuda-graph-max-bs": "128", "piecewise-cuda-graph-max-tokens": 2048})
    new = memory_knobs(
        {"--tensor-parallel-size": "8", "cuda_graph_max_bs_decode": 128, "cuda-graph-max-bs-prefill": 2048}
    )
    assert old == new
    assert (old.tp_size, old.cuda_graph_max_bs, old.cuda_graph_max_bs_prefill) == (8, 128, 2048)


def test_knobs_read_every_type_and_ignore_other_flags():
    knobs = memory_knobs(
        {
            "mem-fraction-static": "0.85",
            "enable-dp-attention": True,
            "dp-size": 4,
            "tp-size": 8,
            "cuda-graph-bs": [1, 2, 8],
            "speculative-algorithm": "eagle3",
            "disable-cuda-graph": "false",
            "host": "0.0.0.0",
            "max-total-tokens": None,
        }
    )
    assert knobs.mem_fraction_static == 0.85
    assert (knobs.attn_dp, knobs.attn_tp) == (4, 2)
    assert knobs.cuda_graph_bs == (1, 2, 8)
    assert knobs.speculative_algorithm == "EAGLE3"
    assert knobs.disable_cuda_graph is False
    assert knobs.max_total_tokens is None


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("tp-size", "eight", "whole number"),
        ("tp-size", 1.5, "whole number"),
        ("tp-size", True, "whole number"),
        ("mem-fraction-static", "most", "a number"),
        ("disable-cuda-graph", "maybe", "true or false"),
        ("cuda-graph-bs", "1 two", "list"),
    ],
)
def test_a_wrong_type_names_the_flag(name, value, wanted):
    with pytest.raises(ValueError, match=f"--{name} needs .*{wanted}"):
        memory_knobs({name: value})
