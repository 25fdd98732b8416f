from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.models.checkpoint import describe
from tui.models.config import quantization
from tui.models.errors import CheckpointError
from tui.models.geometry import kv_geometry
from tui.models.safetensors import TensorInfo
from tui.models.weights import weights_per_rank

KEYS = [
    "architectures",
    "text_config",
    "vision_config",
    "thinker_config",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "attention_other_setting",
    "rope_scaling",
    "max_position_embeddings",
    "torch_dtype",
    "model_type",
    "layer_types",
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "linear_attn_config",
    "linear_num_value_heads",
    "full_attention_interval",
    "sliding_window",
    "kv_lora_rank",
    "global_head_dim",
    "quantization_config",
    "mamba_ssm_dtype",
    "mamba_num_heads",
    "tie_word_embeddings",
    "num_nextn_predict_layers",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats()
    | st.sampled_from(["Llama4ForCausalLM", "GptOssForCausalLM", "gemma3", "M-*", "float32", "full_attention"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "kda_layers", "factor"]), inner)
    ),
    max_leaves=6,
)
TENSORS = (
    TensorInfo("model.layers.0.self_attn.k_proj.weight", "BF16", (64, 32), 4096),
    TensorInfo("model.layers.0.self_attn.qkv_proj.weight", "BF16", (64, 32), 4096),
    TensorInfo("model.embed_tokens.weight", "BF16", (0, 32), 0),
    TensorInfo("lm_head.weight", "BF16", (), 2),
)


@settings(max_examples=300, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), tp=st.integers(1, 9))
def test_any_config_is_understood_or_refused_in_a_sentence(changes: dict[str, Any], tp: int) -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, **changes}
    quantization(config, Path("nowhere"))
    try:
        found = describe(Path("nowhere"), config, TENSORS)
    except CheckpointError:
        return
    geometry = kv_geometry(found)
    assert len(geometry.layer_kinds) == found.num_hidden_layers
    assert all(rank.stored_bytes > 0 for rank in weights_per_rank(found, tp=tp))


def test_an_absurd_layer_count_is_refused() -> None:
    with pytest.raises(CheckpointError, match="1000000000000 layers"):
        describe(Path("m"), {"hidden_size": 8, "num_hidden_layers": 10**12, "vocab_size": 8}, [])
