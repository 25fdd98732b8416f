"""The raw facts that decide KV bytes per token, from config.json alone.

Nothing here divides by tensor parallel size or by an SGLang era; that is for whoever turns the facts into a cell size.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from tui.frozen import frozen
from tui.models.checkpoint import Checkpoint
from tui.models.config import positive_int
from tui.models.linear_state import LinearState, linear_state

LayerKind: TypeAlias = Literal["full", "swa", "linear", "none"]
"""What a layer keeps per token: all of it, a window, a fixed state, or nothing."""


class AttentionKind(StrEnum):
    MHA = "mha"
    MLA = "mla"
    DSA = "dsa"
    SWA_HYBRID = "swa-hybrid"
    LINEAR_HYBRID = "linear-hybrid"


SWA_POOL_ARCHITECTURES = frozenset(
    {
        "Llama4ForConditionalGeneration",
        "GptOssForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "Step3p5ForCausalLM",
        "Step3p7ForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "LagunaForCausalLM",
        "MellumForCausalLM",
    }
)
"""Architectures whose window layers get their own, smaller pool (SGLang 0.5.23 configs/model_config.py:
is_hybrid_swa_model). Others with windows, such as Gemma 2 and 3, keep every token in every layer."""

_TYPE_NAMES: Mapping[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "swa",
    "chunked_attention": "swa",
    "linear_attention": "linear",
    "mamba": "linear",
    "conv": "linear",
    "moe": "none",
    "mlp": "none",
}
_NEMOTRON: Mapping[str, LayerKind] = {"M": "linear", "*": "full", "-": "none", "E": "none"}


@frozen(kw_only=False)
class ModelGeometry:
    """KV facts of one model, whole model (not per rank).

    layer_kinds holds one entry per decoder layer. When `swa_pool` is false, window layers store every token like full
    ones. `kv_layers_per_layer` is 2 for LongCat, whose layers hold two attentions. `kv_cache_dtype` is what the
    checkpoint asks for ("fp8_e4m3") or None: then "auto" means `dtype`.
    """

    kind: AttentionKind
    layer_kinds: tuple[LayerKind, ...]
    kv_layers_per_layer: int
    swa_pool: bool
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    swa_num_kv_heads: int
    swa_head_dim: int
    swa_v_head_dim: int
    kv_lora_rank: int | None
    qk_rope_head_dim: int | None
    index_head_dim: int | None
    sliding_window: int | None
    linear_state: LinearState | None
    dtype: str
    kv_cache_dtype: str | None
    num_nextn_predict_layers: int | None

    @property
    def is_mla(self) -> bool:
        """Does a token's KV hold one latent vector per layer, the same on every rank?"""
        return self.kv_lora_rank is not None

    def count(self, kind: LayerKind, first: int = 0, last: int | None = None) -> int:
        """Attention (or state) layers of a kind among decoder layers [first, last), for a pipeline stage."""
        found = sum(1 for layer in self.layer_kinds[first:last] if layer == kind)
        return found * self.kv_layers_per_layer


def kv_geometry(checkpoint: Checkpoint) -> ModelGeometry:
    """KV facts of a checkpoint (SGLang 0.5.9 and 0.5.23 configs/model_config.py:_derive_model_shapes)."""
    text = checkpoint.text
    kinds = layer_kinds(text, checkpoint.architectures)
    lora = _kv_lora_rank(text)
    head_dim = positive_int(text, "head_dim") or checkpoint.hidden_size // checkpoint.num_attention_heads
    v_head_dim = positive_int(text, "v_head_dim") or head_dim
    kv_heads = checkpoint.num_key_value_heads
    other = text.get("attention_other_setting")
    swa_heads = positive_int(text, "swa_num_key_value_heads") or (
        positive_int(other, "num_attention_groups") if isinstance(other, dict) else None
    )
    swa_dim = positive_int(text, "swa_head_dim") or head_dim
    swa_v_dim = positive_int(text, "swa_v_head_dim") or (v_head_dim if swa_dim == head_dim else swa_dim)
    swa_heads = swa_heads or kv_heads
    if "global_head_dim" in text:
        # Gemma 4: the plain keys describe the window layers, the global ones the full layers.
        swa_heads, swa_dim, swa_v_dim = kv_heads, head_dim, head_dim
        kv_heads = positive_int(text, "num_global_key_value_heads") or kv_heads
        head_dim = v_head_dim = positive_int(text, "global_head_dim") or head_dim
    index = positive_int(text, "index_head_dim") if lora and "index_topk" in text else None
    swa_pool = "swa" in kinds and not SWA_POOL_ARCHITECTURES.isdisjoint(checkpoint.architectures)
    return ModelGeometry(
        kind=_kind(kinds, lora, index, swa_pool),
        layer_kinds=kinds,
        kv_layers_per_layer=2 if "LongcatFlashForCausalLM" in checkpoint.architectures else 1,
        swa_pool=swa_pool,
        num_attention_heads=checkpoint.num_attention_heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        swa_num_kv_heads=swa_heads,
        swa_head_dim=swa_dim,
        swa_v_head_dim=swa_v_dim,
        kv_lora_rank=lora,
        qk_rope_head_dim=positive_int(text, "qk_rope_head_dim") if lora else None,
        index_head_dim=index,
        sliding_window=positive_int(text, "sliding_window_size", "sliding_window", "attention_chunk_size"),
        linear_state=linear_state(text) if "linear" in kinds else None,
        dtype=checkpoint.dtype,
        kv_cache_dtype=checkpoint.kv_cache_dtype,
        num_nextn_predict_layers=checkpoint.num_nextn_predict_layers,
    )


def layer_kinds(text: Mapping[str, Any], architectures: tuple[str, ...]) -> tuple[LayerKind, ...]:
    """The kind of every decoder layer, from whichever key the family uses."""
    layers = positive_int(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers") or 0
    if any(name.startswith("Llama4") for name in architectures):
        return tuple("full" if (i + 1) % 4 == 0 else "swa" for i in range(layers))
    explicit = _listed(text, layers)
    if explicit is not None:
        return explicit
    kda = text.get("linear_attn_config")
    if isinstance(kda, dict) and isinstance(kda.get("kda_layers"), list):
        # Kimi Linear counts its layers from one.
        linear = [layer for layer in kda["kda_layers"] if isinstance(layer, int)]
        return tuple("linear" if i + 1 in linear else "full" for i in range(layers))
    interval = positive_int(text, "full_attention_interval")
    if interval is None and "linear_num_value_heads" in text:
        interval = 4
    if interval is not None:
        return tuple("full" if (i + 1) % interval == 0 else "linear" for i in range(layers))
    return tuple(_window_kind(text, i) for i in range(layers))


def _listed(text: Mapping[str, Any], layers: int) -> tuple[LayerKind, ...] | None:
    """Kinds spelt out layer by layer, None when they are not."""
    types = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(types, list) and len(types) >= layers and all(isinstance(name, str) for name in types):
        return tuple(_TYPE_NAMES.get(name, "full") for name in types[:layers])
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= layers:
        return tuple(_NEMOTRON.get(letter, "full") for letter in pattern[:layers])
    flags = text.get("hybrid_layer_pattern")
    if isinstance(flags, list) and len(flags) >= layers:
        return tuple("swa" if flag == 1 else "full" for flag in flags[:layers])
    return None


def _window_kind(text: Mapping[str, Any], layer: int) -> LayerKind:
    """Gemma 2 alternates; Gemma 3 has one full layer in sliding_window_pattern (six when silent)."""
    family = str(text.get("model_type", ""))
    pattern = positive_int(text, "sliding_window_pattern", "_sliding_window_pattern")
    if pattern is None:
        pattern = 2 if family == "gemma2" else 6 if family.startswith("gemma3") else None
    if pattern is None or positive_int(text, "sliding_window_size", "sliding_window") is None:
        return "full"
    return "full" if (layer + 1) % pattern == 0 else "swa"


def _kv_lora_rank(text: Mapping[str, Any]) -> int | None:
    # DeepSeek-VL2's small sizes are plain attention and say so.
    return None if text.get("use_mla") is False else positive_int(text, "kv_lora_rank")


def _kind(kinds: tuple[LayerKind, ...], lora: int | None, index: int | None, swa_pool: bool) -> AttentionKind:
    if "linear" in kinds:
        return AttentionKind.LINEAR_HYBRID
    if index is not None:
        return AttentionKind.DSA
    if lora is not None:
        return AttentionKind.MLA
    return AttentionKind.SWA_HYBRID if swa_pool else AttentionKind.MHA
