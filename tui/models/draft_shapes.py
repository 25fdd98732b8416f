"""The tensors of an EAGLE head from its config alone, for heads whose weights have no readable header."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tui.models.config import architectures, positive_int, text_config
from tui.models.safetensors import TensorInfo


def eagle_tensors(config: Mapping[str, Any]) -> tuple[TensorInfo, ...]:
    """What LlamaForCausalLMEagle or LlamaForCausalLMEagle3 holds besides the embedding, in 16 bits.

    SGLang 0.5.23 models/llama_eagle.py and models/llama_eagle3.py. A head of another family is taken as a Llama one.
    """
    return tuple(
        TensorInfo(name, "BF16", shape, 2 * math.prod(shape)) for name, shape in _shapes(text_config(config), config)
    )


def _shapes(text: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden = positive_int(text, "hidden_size") or 0
    middle = positive_int(text, "intermediate_size") or 4 * hidden
    heads = positive_int(text, "num_attention_heads") or 1
    kv_heads = positive_int(text, "num_key_value_heads") or heads
    dim = positive_int(text, "head_dim") or hidden // heads
    source = positive_int(text, "target_hidden_size") or hidden
    eagle3 = any("Eagle3" in name for name in architectures(config))
    eagle = config.get("eagle_config")
    layer_ids = eagle.get("eagle_aux_hidden_state_layer_ids") if isinstance(eagle, dict) else None
    inputs = (len(layer_ids) if isinstance(layer_ids, list) and layer_ids else 3) * source if eagle3 else 2 * hidden
    yield "fc.weight", (hidden, inputs)
    for layer in range(positive_int(text, "num_hidden_layers") or 1):
        width = 2 * hidden if eagle3 and layer == 0 else hidden
        prefix = f"layers.{layer}"
        yield f"{prefix}.self_attn.q_proj.weight", (heads * dim, width)
        yield f"{prefix}.self_attn.k_proj.weight", (kv_heads * dim, width)
        yield f"{prefix}.self_attn.v_proj.weight", (kv_heads * dim, width)
        yield f"{prefix}.self_attn.o_proj.weight", (hidden, heads * dim)
        yield f"{prefix}.mlp.gate_proj.weight", (middle, hidden)
        yield f"{prefix}.mlp.up_proj.weight", (middle, hidden)
        yield f"{prefix}.mlp.down_proj.weight", (hidden, middle)
        yield f"{prefix}.post_attention_layernorm.weight", (hidden,)
    if eagle3:
        yield "norm.weight", (hidden,)
        vocab = positive_int(text, "draft_vocab_size")
        if vocab is not None:
            yield "lm_head.weight", (vocab, hidden)
