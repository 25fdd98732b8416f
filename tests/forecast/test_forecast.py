"""The forecast: segments, intervals, what decides a verdict, and what must always hold."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.forecast import FORECAST_SEGMENTS, Gpu, Learned, Machine, ModelFacts, forecast
from tui.sglang.kvcell import KvGeometry, KvKind
from tui.sglang.memknobs import ModelTraits
from tui.sglang.versions import parse_version
from tui.snapshot import SEGMENTS, UNKNOWN, Amount, Source

STORY_KNOBS = {
    "tp-size": 8,
    "context-length": 131072,
    "cuda-graph-max-bs": 128,
    "speculative-algorithm": "EAGLE3",
    "speculative-draft-model-path": "/models/draft",
    "speculative-num-steps": 2,
    "speculative-eagle-topk": 4,
    "speculative-num-draft-tokens": 4,
}


def measured(gib):
    return Amount(gib=gib, source=Source.MEASURED)


def estimate(gib, low, high):
    return Amount(gib=gib, source=Source.ESTIMATED, low_gib=low, high_gib=high)


def gpus(count=8, mib=97_887, **more):
    return tuple(Gpu(index=i, uuid=f"GPU-{i}", total_mib=mib, **more) for i in range(count))


MACHINE = Machine(gpus=gpus(), free_before=measured(94.08))
MODEL = ModelFacts(
    base=measured(72.33),
    cell_bytes=70_272,
    traits=ModelTraits(multimodal=True, vision_layers=27, vision_hidden=1152),
)


def run(version="0.5.9", machine=MACHINE, model=MODEL, learned=None, **knobs):
    given_knobs = {**STORY_KNOBS, **{name.replace("_", "-"): value for name, value in knobs.items()}}
    found = {name: value for name, value in given_knobs.items() if value is not None}
    return forecast(parse_version(version), machine, model, found, learned or Learned())


def plain(version="0.5.9", **more):
    nothing = dict.fromkeys(name for name in STORY_KNOBS if name.startswith("speculative"))
    return run(version, **{**nothing, **more})


def sums(found):
    return [
        (sum(gpu.segments[name].gib for name in FORECAST_SEGMENTS), gpu.bar.total_gib) for gpu in found.gpus if gpu.used
    ]


def test_the_segments_are_the_live_bars_and_name_their_source():
    found = run(mem_fraction_static=0.85)
    bar = found.gpus[0].bar
    assert set(bar.segments) == set(SEGMENTS)
    assert sum(amount.gib for amount in bar.segments.values()) == pytest.approx(97_887 / 1024)
    assert found.segments["base"].source is Source.MEASURED
    assert found.segments["graphs"].source is Source.ESTIMATED
    assert found.segments["kv_base"].gib == pytest.approx(7.638, abs=0.001)
    # Before 0.5.14 the draft stands outside the fraction, so the tick is at P x f beyond it.
    assert bar.budget_gib == pytest.approx(94.08 * 0.85 + found.segments["draft"].gib)
    assert run("0.5.20", mem_fraction_static=0.85).gpus[0].bar.budget_gib == pytest.approx(94.08 * 0.85)


def test_other_processes_have_a_segment_of_their_own():
    machine = Machine(gpus=gpus(free_gib_now=90.0, foreign_gib=4.0))
    bar = run(machine=machine).gpus[0].bar
    assert bar.segments["foreign"].gib == 4.0
    assert sum(amount.gib for amount in bar.segments.values()) == pytest.approx(97_887 / 1024)


def test_a_gpu_without_a_rank_is_shown_but_does_not_decide():
    cards = (*gpus(2, free_gib_now=90.0), Gpu(index=2, uuid="GPU-2", total_mib=24_564, free_gib_now=1.0))
    found = run(machine=Machine(gpus=cards), tp_size=2)
    assert [gpu.used for gpu in found.gpus] == [True, True, False]
    assert found.free_before.gib == pytest.approx(90.0, abs=2)
    # But SGLang takes its defaults from the smallest GPU that nvidia-smi lists.
    assert "24564" in found.fraction.formula


def test_only_the_gpus_that_the_server_sees_count():
    cards = tuple(
        Gpu(index=i, uuid=f"GPU-{i}", total_mib=97_887, free_gib_now=free) for i, free in enumerate((10, 94, 94))
    )
    found = run(machine=Machine(gpus=cards, visible=("GPU-2", "GPU-1")), tp_size=2)
    assert found.free_before.gib > 90
    assert [gpu.bar.index for gpu in found.gpus if gpu.used] == [2, 1]
    assert run(machine=Machine(gpus=cards, visible=("GPU-2",)), tp_size=2).verdict.kind == "does-not-fit"


def test_the_tightest_gpu_decides():
    free = [94.0, 94.0, 93.0, 94.0, 94.0, 94.0, 94.0, 94.0]
    cards = tuple(replace(gpu, free_gib_now=gib) for gpu, gib in zip(gpus(), free, strict=True))
    found = run(machine=Machine(gpus=cards), learned=Learned(overhead_gib=1.0), mem_fraction_static=0.85)
    assert found.free_before.gib == pytest.approx(92.0)
    assert [gpu.bar.tight for gpu in found.gpus] == [index == 2 for index in range(8)]
    assert found.segments == found.gpus[2].segments


def test_on_a_host_what_was_learned_keeps_an_interval():
    host = Machine(gpus=(Gpu(index=0, kind="host", total_mib=24_000, free_gib_now=20.0),), device="cpu")
    guessed = plain("0.5.23", machine=host, mem_fraction_static=0.5).free_before
    known = plain("0.5.23", machine=host, mem_fraction_static=0.5, learned=Learned(overhead_gib=1.5)).free_before
    assert (guessed.source, known.source) == (Source.ESTIMATED, Source.LEARNED)
    assert known.gib == 18.5
    assert guessed.low_gib < known.low_gib < known.gib < known.high_gib < guessed.high_gib


def test_a_gpu_far_below_the_others_is_refused_as_sglang_does():
    cards = tuple(replace(gpu, free_gib_now=80.0 if gpu.index == 3 else 94.0) for gpu in gpus())
    found = run(machine=Machine(gpus=cards), mem_fraction_static=0.85)
    assert (found.fits, found.verdict.kind) == (False, "gpu-shared")
    assert "GPU 3" in found.verdict.text
    alone = run(machine=Machine(gpus=cards[:1]), tp_size=1, mem_fraction_static=0.85)
    assert alone.verdict.kind != "gpu-shared"


def test_weights_larger_than_the_gpu_fit_with_no_fraction():
    found = run(model=replace(MODEL, base=measured(95.0)))
    assert (found.fits, found.verdict.kind) == (False, "does-not-fit")
    assert found.suggestion is None
    assert any("--tp-size 16" in text for text in found.helps)
    assert any("fp8" in text for text in found.helps)
    packed = run(model=replace(MODEL, base=measured(95.0), quantization="compressed-tensors"))
    assert not any("--quantization fp8" in text for text in packed.helps)


def test_room_for_the_pool_but_not_for_the_rest_fits_with_no_fraction_either():
    found = run(model=replace(MODEL, base=measured(93.6)), mem_fraction_static=0.999)
    assert (found.fits, found.verdict.kind) == (False, "does-not-fit")


def test_a_slack_below_the_least_that_is_needed_runs_out():
    early = run("0.5.9", mem_fraction_static=0.99)
    assert (early.fits, early.verdict.kind) == (False, "draft-oom")
    late = run(
        "0.5.20",
        mem_fraction_static=0.985,
        cuda_graph_max_bs_decode=512,
        model=replace(MODEL, draft_gross=measured(1.0)),
    )
    assert late.fits is not True
    assert late.verdict.kind in ("capture-oom", "runtime-oom")


def test_between_least_and_likely_it_cannot_be_told():
    found = run(mem_fraction_static=0.95)
    assert found.fits is None
    assert found.needed.low_gib < found.slack_gib < found.needed.gib


def test_estimates_carry_their_interval_into_the_tokens():
    found = run(model=replace(MODEL, base=estimate(72.0, 72.0, 73.0)), mem_fraction_static=0.85)
    assert found.kv_tokens_low < found.kv_tokens < found.kv_tokens_high or found.kv_tokens == found.kv_tokens_high
    assert (found.kv_tokens_high - found.kv_tokens_low) * 70_272 / 2**30 == pytest.approx(1.0, abs=0.001)
    exact = run(mem_fraction_static=0.85)
    assert exact.kv_tokens_low == exact.kv_tokens == exact.kv_tokens_high


def test_learned_beats_computed_and_measured_beats_learned():
    past = Learned(base_gib=72.33, graphs_gib={(128, "EAGLE3"): 1.25}, activations_gib=3.0)
    found = run(model=replace(MODEL, base=estimate(71.0, 71.0, 72.1)), learned=past, mem_fraction_static=0.85)
    assert found.kv_tokens == 116_707
    assert found.segments["base"].source is Source.LEARNED
    assert found.segments["graphs"] == Amount(gib=1.25, source=Source.LEARNED, why=found.segments["graphs"].why)
    assert run(learned=Learned(base_gib=50.0)).segments["base"].gib == 72.33
    # With measured activations the suggestion dares more.
    assert found.suggestion.knobs["mem-fraction-static"] > 0.85


def test_p_without_a_reading_is_an_estimate_that_holds_the_known_case():
    found = run(machine=Machine(gpus=gpus()))
    assert found.free_before.source is Source.ESTIMATED
    assert found.free_before.low_gib < 94.08 < found.free_before.high_gib


@pytest.mark.parametrize(("mib", "tp", "truth"), [(143_771, 8, 137.90), (183_359, 4, 176.25), (24_564, 1, 23.3)])
def test_p_of_other_cards_lies_in_the_interval(mib, tp, truth):
    found = run(machine=Machine(gpus=gpus(tp, mib)), tp_size=tp)
    assert found.free_before.low_gib < truth < found.free_before.high_gib


def test_a_pool_shorter_than_a_request_is_a_warning():
    found = run(mem_fraction_static=0.85)
    assert found.fits is True
    assert any("131072" in text and "116707" in text for text in found.warnings)
    assert not any("131072" in text for text in run(mem_fraction_static=0.87).warnings)


def test_the_request_table_of_a_long_context_counts():
    found = plain(mem_fraction_static=0.85)
    assert (found.max_running_requests, round(found.request_table_gib, 2)) == (2048, 1.0)
    assert run(mem_fraction_static=0.85).max_running_requests == 48


def test_recurrent_state_has_its_segment():
    geometry = KvGeometry(
        kind=KvKind.MHA, layers=12, kv_heads=2, head_dim=256, state_bytes_per_request=20 << 20, dtype="bfloat16"
    )
    model = ModelFacts(base=measured(30.0), target=geometry, context_len=32_768)
    found = plain("0.5.20", model=model, mem_fraction_static=0.8)
    assert found.fits is True
    assert found.segments["state"].gib > 1
    for total, size in sums(found):
        assert total == pytest.approx(size)


def test_on_a_cpu_the_fraction_follows_the_hosts_memory():
    machine = Machine(gpus=(Gpu(index=0, kind="host", total_mib=24_105),), free_before=measured(21.80), device="cpu")
    geometry = KvGeometry(kind=KvKind.MHA, layers=4, kv_heads=8, head_dim=64)
    found = plain("0.5.23", machine=machine, model=ModelFacts(base=measured(0.35), target=geometry), tp_size=1,
                  cuda_graph_max_bs=None)  # fmt: skip
    assert found.fraction.value == 0.716  # what a real 0.5.23 resolved on such a machine
    assert found.fits is True
    assert found.segments["graphs"].gib == 0


def test_without_a_version_there_is_no_answer():
    found = forecast(None, MACHINE, MODEL, STORY_KNOBS)
    assert (found.fits, found.verdict.kind, found.gpus) == (None, "unknown", ())


def test_a_wrong_type_is_a_sentence_that_names_the_flag():
    with pytest.raises(ValueError, match="--tp-size needs a whole number"):
        run(tp_size="many")


def test_unknown_weights_stay_unknown():
    found = run(model=replace(MODEL, base=UNKNOWN))
    assert found.fits is None
    assert found.segments["base"].gib is None
    assert found.kv_tokens is None
    assert found.segments["free"].gib is not None
    assert "base" in found.segments["free"].why


def test_a_suggestion_may_need_smaller_prefills():
    tight = run(model=replace(MODEL, base=measured(84.0)))
    assert tight.suggestion is not None
    assert tight.suggestion.knobs["chunked-prefill-size"] < 8192
    assert tight.suggestion.margin_gib >= 0


def test_what_is_already_good_is_not_changed():
    assert run(mem_fraction_static=0.85).suggestion is None
    assert run(mem_fraction_static=0.80).suggestion is not None


VERSIONS = st.sampled_from(["0.4.6", "0.5.2", "0.5.5", "0.5.9", "0.5.12", "0.5.14", "0.5.18", "0.5.23"])
ALGORITHMS = st.sampled_from([None, "EAGLE", "EAGLE3", "STANDALONE", "NGRAM"])


@st.composite
def launches(draw):
    """(version, machine, model, knobs) of some sense."""
    total = draw(st.integers(16_000, 200_000))
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    before = total / 1024 * draw(st.floats(0.5, 0.99))
    algorithm = draw(ALGORITHMS)
    base = before * draw(st.floats(0.05, 1.05))
    model = ModelFacts(
        base=draw(st.sampled_from([measured(base), estimate(base, base * 0.99, base * 1.02)])),
        draft_gross=draw(st.sampled_from([UNKNOWN, measured(base * 0.1)])),
        draft_shared_gib=draw(st.floats(0, 0.5)),
        cell_bytes=draw(st.integers(1_000, 500_000)),
        context_len=draw(st.sampled_from([None, 8_192, 131_072, 1_048_576])),
        traits=ModelTraits(mla=draw(st.booleans()), multimodal=draw(st.booleans())),
    )
    free = draw(st.sampled_from([None, before]))
    machine = Machine(
        gpus=gpus(tp, total, free_gib_now=free), free_before=measured(before) if free is None else UNKNOWN
    )
    knobs = {"tp-size": tp, "speculative-algorithm": algorithm, "page-size": draw(st.sampled_from([1, 16, 64]))}
    if draw(st.booleans()):
        knobs["mem-fraction-static"] = draw(st.integers(1, 999)) / 1000
    if draw(st.booleans()):
        knobs["max-total-tokens"] = draw(st.integers(1, 2_000_000))
    return parse_version(draw(VERSIONS)), machine, model, knobs


@settings(max_examples=60, deadline=None)
@given(launches())
def test_segments_always_sum_to_the_total(launch):
    for total, size in sums(forecast(*launch)):
        assert math.isclose(total, size, abs_tol=1e-6)


@settings(max_examples=50, deadline=None)
@given(launches())
def test_a_suggestion_always_fits_by_its_own_rule(launch):
    version, machine, model, knobs = launch
    suggestion = forecast(*launch).suggestion
    if suggestion is None:
        return
    again = forecast(version, machine, model, {**knobs, **suggestion.knobs})
    assert again.fits is True
    assert again.kv_tokens == suggestion.kv_tokens > 0
    assert again.slack_gib == pytest.approx(suggestion.slack_gib)
    assert suggestion.margin_gib >= 0
    assert again.slack_gib >= again.needed.gib


@settings(max_examples=50, deadline=None)
@given(launches(), st.integers(1, 998), st.integers(1, 400))
def test_more_fraction_never_gives_fewer_tokens(launch, thousandths, more):
    version, machine, model, knobs = launch
    few, many = thousandths / 1000, min(999, thousandths + more) / 1000
    low = forecast(version, machine, model, {**knobs, "mem-fraction-static": few})
    high = forecast(version, machine, model, {**knobs, "mem-fraction-static": many})
    assert (low.kv_tokens or 0) <= (high.kv_tokens or 0)
    assert (low.kv_tokens_low or 0) <= (high.kv_tokens_low or 0)


@settings(max_examples=40, deadline=None)
@given(launches())
def test_the_interval_holds_the_likely_tokens(launch):
    found = forecast(*launch)
    if found.fits and found.kv_tokens is not None:
        assert found.kv_tokens_low <= found.kv_tokens <= found.kv_tokens_high
