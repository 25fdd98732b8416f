"""A checkpoint folder becomes the model of a forecast."""

import json

import pytest

from tui.forecast import Gpu, Machine, forecast
from tui.forecast.checkpointfacts import model_facts, to_kv_geometry
from tui.models.checkpoint import describe
from tui.models.draft import DraftKind, inspect_draft
from tui.models.geometry import kv_geometry
from tui.models.safetensors import TensorInfo
from tui.sglang.kvcell import KvKind
from tui.sglang.memknobs import memory_knobs
from tui.sglang.versions import parse_version
from tui.snapshot import Amount, Source

V59, V523 = parse_version("0.5.9"), parse_version("0.5.23")
BASE = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def checkpoint(tmp_path):
    """checkpoint(changes) -> a checkpoint of that config with one attention tensor per layer and its tables."""

    def make(**changes):
        config = {**BASE, **changes}
        names = ["model.embed_tokens.weight", "lm_head.weight"]
        names += [f"model.layers.{n}.self_attn.o_proj.weight" for n in range(config["num_hidden_layers"])]
        size = 4096 * 4096 * 2
        return describe(tmp_path, config, [TensorInfo(name, "BF16", (4096, 4096), size) for name in names])

    return make


def geometry(found, version=V523, **knobs):
    return to_kv_geometry(version, kv_geometry(found), found.architectures, memory_knobs(knobs))


def test_weights_carry_the_interval_that_logs_showed(checkpoint):
    facts = model_facts(V523, checkpoint(), None, {})
    assert facts.base.source is Source.ESTIMATED
    assert facts.base.low_gib == facts.base.gib
    assert facts.base.high_gib == pytest.approx(facts.base.gib * 1.015)
    assert model_facts(V523, checkpoint(), None, {"tp-size": 2}).base.gib < facts.base.gib
    assert (facts.attention_heads, facts.kv_heads, facts.context_len) == (4, 2, 4096)


def test_an_impossible_layout_is_told(checkpoint):
    with pytest.raises(ValueError, match="pp 9"):
        model_facts(V523, checkpoint(), None, {"pp-size": 9})


def test_latent_attention(checkpoint):
    found = geometry(checkpoint(kv_lora_rank=512, qk_rope_head_dim=64))
    assert (found.kind, found.layers, found.kv_lora_rank, found.qk_rope_head_dim) == (KvKind.MLA, 4, 512, 64)
    sparse = geometry(checkpoint(kv_lora_rank=512, qk_rope_head_dim=64, index_topk=2048, index_head_dim=128))
    assert (sparse.kind, sparse.index_dim) == (KvKind.DSA, 128)


def test_window_layers_have_a_pool_only_in_versions_that_were_read_with_it(checkpoint):
    model = checkpoint(
        architectures=["GptOssForCausalLM"],
        layer_types=["full_attention", "sliding_attention"] * 2,
        sliding_window=128,
    )
    apart = geometry(model, V59)
    assert (apart.kind, apart.layers, apart.swa_layers) == (KvKind.SWA, 2, 2)
    together = geometry(model, parse_version("0.5.2"))
    assert (together.kind, together.layers, together.swa_layers) == (KvKind.MHA, 4, 0)


def test_recurrent_state_is_per_rank_and_only_full_layers_keep_kv(checkpoint):
    model = checkpoint(
        architectures=["Qwen3NextForCausalLM"],
        full_attention_interval=4,
        linear_num_value_heads=8,
        linear_value_head_dim=32,
        linear_key_head_dim=32,
        linear_num_key_heads=4,
        linear_conv_kernel_dim=4,
    )
    whole, half = geometry(model), geometry(model, **{"tp-size": 2})
    assert (whole.kind, whole.layers) == (KvKind.MHA, 1)
    assert whole.state_bytes_per_request == 2 * half.state_bytes_per_request > 0


def test_vision_is_what_the_fraction_reads(checkpoint):
    traits = model_facts(V59, checkpoint(vision_config={"num_hidden_layers": 27, "hidden_size": 1152}), None, {}).traits
    assert (traits.multimodal, traits.vision_layers, traits.vision_hidden) == (True, 27, 1152)
    assert not model_facts(V59, checkpoint(), None, {}).traits.multimodal


def test_a_draft_head_is_budgeted_by_its_layers(checkpoint, tmp_path):
    target = checkpoint()
    folder = tmp_path / "draft"
    folder.mkdir()
    config = {**BASE, "architectures": ["LlamaForCausalLMEagle"], "num_hidden_layers": 1, "intermediate_size": 256}
    (folder / "config.json").write_text(json.dumps(config))
    draft = inspect_draft(folder, target)
    assert draft.kind is DraftKind.EAGLE
    facts = model_facts(V523, target, draft, {"speculative-algorithm": "EAGLE"})
    assert facts.draft.layers == 1
    assert facts.draft_gross.gib > facts.draft_shared_gib > 0
    before = Amount(gib=20.0, source=Source.MEASURED)
    machine = Machine(gpus=(Gpu(index=0, total_mib=24_564),), free_before=before)
    knobs = {"speculative-algorithm": "EAGLE", "mem-fraction-static": 0.5}
    with_draft, without = (
        forecast(V523, machine, facts, {**knobs, "speculative-algorithm": name}) for name in ("EAGLE", None)
    )
    # One layer more beside four: the pool is 4/5 as long.
    assert with_draft.kv_tokens / without.kv_tokens == pytest.approx(0.8, abs=0.01)
    assert with_draft.segments["kv_draft"].gib == pytest.approx(with_draft.segments["kv_base"].gib / 4)
