from pathlib import Path
from typing import Any

import pytest

from tui.models.checkpoint import describe
from tui.models.geometry import AttentionKind, ModelGeometry, kv_geometry


def geometry(architecture: str, wrapper: dict[str, Any] | None = None, **text: Any) -> ModelGeometry:
    """Geometry of a config without tensors; with `wrapper` the text part is nested."""
    base = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 8, "vocab_size": 1000, **text}
    config = {**wrapper, "text_config": base} if wrapper is not None else base
    return kv_geometry(describe(Path("m"), {**config, "architectures": [architecture]}, []))


def test_grouped_query_attention() -> None:
    found = geometry("Qwen3ForCausalLM", num_key_value_heads=8, head_dim=128)
    assert (found.kind, found.num_kv_heads, found.head_dim, found.v_head_dim) == (AttentionKind.MHA, 8, 128, 128)
    assert found.count("full") == 8
    assert not found.is_mla


def test_multi_head_attention_falls_back_to_the_query_heads() -> None:
    found = geometry("LlamaForCausalLM", head_dim=None)
    assert (found.num_kv_heads, found.head_dim) == (32, 128)


def test_a_mistral_window_does_not_make_window_layers() -> None:
    assert geometry("MistralForCausalLM", sliding_window=4096).count("full") == 8


@pytest.mark.parametrize("wrapper", [None, {"vision_config": {"hidden_size": 1152}}])
def test_mla_also_inside_a_wrapper(wrapper: dict[str, Any] | None) -> None:
    found = geometry("KimiK25ForConditionalGeneration", wrapper, kv_lora_rank=512, qk_rope_head_dim=64, v_head_dim=128)
    assert (found.kind, found.kv_lora_rank, found.qk_rope_head_dim, found.index_head_dim) == (
        AttentionKind.MLA,
        512,
        64,
        None,
    )


def test_dsa_needs_the_indexer_keys() -> None:
    mla = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}
    assert geometry("DeepseekV3ForCausalLM", **mla).kind is AttentionKind.MLA
    found = geometry("DeepseekV32ForCausalLM", **mla, index_topk=2048)
    assert (found.kind, found.index_head_dim) == (AttentionKind.DSA, 128)


def test_a_small_deepseek_vl2_is_plain_attention() -> None:
    assert geometry("DeepseekVL2ForCausalLM", kv_lora_rank=512, use_mla=False).kind is AttentionKind.MHA


def test_gpt_oss_alternates_in_its_own_pool() -> None:
    types = ["sliding_attention", "full_attention"] * 4
    found = geometry("GptOssForCausalLM", layer_types=types, sliding_window=128, num_key_value_heads=8, head_dim=64)
    assert (found.kind, found.swa_pool, found.sliding_window) == (AttentionKind.SWA_HYBRID, True, 128)
    assert (found.count("full"), found.count("swa"), found.count("swa", 0, 3)) == (4, 4, 2)


@pytest.mark.parametrize(
    ("model_type", "extra", "full"),
    [("gemma2", {}, 4), ("gemma3_text", {}, 1), ("gemma3_text", {"sliding_window_pattern": 4}, 2)],
)
def test_gemma_windows_share_the_one_pool(model_type: str, extra: dict[str, Any], full: int) -> None:
    found = geometry("Gemma3ForCausalLM", model_type=model_type, sliding_window=1024, **extra)
    assert (found.kind, found.swa_pool) == (AttentionKind.MHA, False)
    assert (found.count("full"), found.count("swa")) == (full, 8 - full)
    assert found.layer_kinds[0] == "swa"


def test_gemma4_full_layers_have_their_own_heads() -> None:
    found = geometry(
        "Gemma4ForConditionalGeneration",
        {"vision_config": {}},
        layer_types=["sliding_attention"] * 7 + ["full_attention"],
        head_dim=256,
        num_key_value_heads=8,
        global_head_dim=512,
        num_global_key_value_heads=1,
        sliding_window=1024,
    )
    assert (found.num_kv_heads, found.head_dim, found.swa_num_kv_heads, found.swa_head_dim) == (1, 512, 8, 256)
    assert found.swa_pool


def test_llama4_has_one_full_layer_in_four() -> None:
    found = geometry("Llama4ForConditionalGeneration", {}, attention_chunk_size=8192)
    assert (found.count("full"), found.count("swa"), found.sliding_window) == (2, 6, 8192)
    assert found.layer_kinds == ("swa", "swa", "swa", "full") * 2


GDN = {
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def test_qwen3_next_state_splits_over_ranks() -> None:
    found = geometry("Qwen3NextForCausalLM", full_attention_interval=4, **GDN)
    assert (found.kind, found.count("full"), found.count("linear")) == (AttentionKind.LINEAR_HYBRID, 2, 6)
    assert found.layer_kinds == ("linear", "linear", "linear", "full") * 2
    state = found.linear_state
    assert state is not None
    # bf16 window of (values + 2 groups of keys) times three steps, float32 state of heads x 128 x 128.
    assert state.conv_bytes(1) == (32 * 128 + 2 * 16 * 128) * 3 * 2
    assert state.ssm_bytes(1) == 32 * 128 * 128 * 4
    assert (state.conv_bytes(4), state.ssm_bytes(4)) == (state.conv_bytes(1) // 4, state.ssm_bytes(1) // 4)


def test_layer_types_beat_the_interval() -> None:
    types = ["linear_attention"] * 7 + ["full_attention"]
    assert geometry("Qwen3_5ForConditionalGeneration", {}, layer_types=types, **GDN).count("linear") == 7


def test_kimi_linear_counts_its_layers_from_one() -> None:
    linear = {"kda_layers": [1, 2, 3, 5, 6, 7], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}
    found = geometry("KimiLinearForCausalLM", linear_attn_config=linear, kv_lora_rank=512, qk_rope_head_dim=64)
    assert found.layer_kinds == ("linear", "linear", "linear", "full") * 2
    assert found.is_mla
    assert found.linear_state is not None
    assert found.linear_state.conv_bytes(2) == 3 * (32 * 128 // 2) * 3 * 2


def test_nemotron_pattern_and_replicated_groups() -> None:
    found = geometry(
        "NemotronHForCausalLM",
        hybrid_override_pattern="M-M*M-ME",
        mamba_num_heads=128,
        mamba_head_dim=64,
        ssm_state_size=128,
        n_groups=1,
        conv_kernel=4,
    )
    assert (found.count("full"), found.count("linear"), found.count("none")) == (1, 4, 3)
    assert found.linear_state is not None
    # One group cannot be split over four ranks: each keeps a copy.
    assert found.linear_state.conv_bytes(4) == (128 * 64 + 2 * 4 * 128) // 4 * 3 * 2


def test_an_unknown_linear_family_has_no_state() -> None:
    found = geometry("Lfm2ForCausalLM", layer_types=["conv"] * 6 + ["full_attention"] * 2)
    assert found.kind is AttentionKind.LINEAR_HYBRID
    assert found.linear_state is None


def test_longcat_layers_hold_two_attentions() -> None:
    assert geometry("LongcatFlashForCausalLM", kv_lora_rank=512, qk_rope_head_dim=64).count("full") == 16
