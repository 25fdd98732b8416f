"""What a tensor is, from its name: role, layer, how SGLang shards it, and the parameter it is fused into.

Names follow the Hugging Face checkpoints; the sharding follows SGLang's models/ (deepseek_v2.py, qwen3_moe.py,
qwen3_next.py, llama.py, kimi_k25.py, gpt_oss.py of 0.5.9 and 0.5.23).
"""

import re
from enum import StrEnum
from functools import lru_cache

from tui.frozen import frozen
from tui.patterns import lazy


class Role(StrEnum):
    """What the bytes are for."""

    EMBED = "embedding"
    LM_HEAD = "lm_head"
    ATTENTION = "attention"
    MLP = "mlp"
    SHARED_EXPERTS = "shared experts"
    EXPERTS = "experts"
    ROUTER = "router"
    NORM = "norm"
    VISION = "vision"
    DRAFT = "draft projection"
    OTHER = "other"


class Shard(StrEnum):
    """How a tensor is spread over the tensor-parallel ranks."""

    VOCAB = "vocab"
    COLUMN = "column"
    ROW = "row"
    KV = "kv heads"
    QKV = "fused q, k and v"
    EXPERT = "experts"
    REPLICATED = "replicated"
    NOT_LOADED = "not loaded"


@frozen(kw_only=False)
class Place:
    """Where one tensor goes: `param` names the fused parameter it ends up in, `part` is weight, bias, scale, …"""

    role: Role
    shard: Shard
    layer: int | None
    module: str
    param: str
    part: str
    nextn: bool


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LAYER = lazy(r"(?:^|\.)(?:layers|h|blocks|block|mtp_layers)\.(\d+)\.")
_NEXTN = lazy(r"(?:^|\.)(?:mtp|mtp_layers|mtp_block|nextn)(?:\.|$)")
_VISION = lazy(
    r"(?:^|\.)(?:vision_tower|visual|vision_model|vision_encoder|vision_embed\w*|embed_vision|vit|multi_modal_projector"
    r"|multimodal_projector|mm_projector|vision_projection|vision_language_adapter|vision_adapter|patch_merger|mlp1"
    r"|image_newline|audio_tower|audio_model|embed_audio|audio_encoder|aligner|projector)(?:\.|$)"
)
_EXPERT = lazy(r"(?:^|\.)(?:experts|local_experts)(?:\.|$)")
_EXPERT_NUMBER = lazy(r"(\.(?:local_)?experts)\.\d+\.")
_SHARED = lazy(r"(?:^|\.)(?:shared_experts?|shared_mlp)(?:\.|$)")
_PARTS = _words(
    "weight bias qweight qzeros scales g_idx weight_scale weight_scale_inv weight_scale_2 input_scale weight_packed "
    "weight_shape weight_zero_point weight_g_idx weight_global_scale input_global_scale k_scale v_scale "
    "e_score_correction_bias weight_scale_second weight_offset"
)
_EMBED = _words("embed_tokens wte word_embeddings tok_embeddings embedding")
_HEAD = _words("lm_head output_layer embed_out")
_ROUTER = _words("gate router shared_expert_gate wg expert_bias e_score_correction_bias")
_KV = _words("k_proj v_proj key_proj value_proj wk wv kv_proj")
_QKV = _words("qkv_proj query_key_value Wqkv c_attn W_pack qkv")
_REPLICATED = _words(
    "q_a_proj kv_a_proj_with_mqa fused_qkv_a_proj_with_mqa fused_qkv_a_proj kv_a_proj f_a_proj g_a_proj "
    "wq_a wkv patch_embed patch_embedding position_embedding pos_embed rotary_emb"
)
_DRAFT = _words("fc eh_proj input_proj")
_COLUMN = _words(
    "q_proj query wq wq_b q_b_proj kv_b_proj gate_proj up_proj gate_up_proj w1 w3 fc1 fc0 linear_fc1 c_fc "
    "wi dense_h_to_4h in_proj in_proj_qkvz in_proj_ba in_proj_qkv in_proj_z in_proj_a in_proj_b q_conv1d "
    "k_conv1d v_conv1d conv1d f_b_proj g_b_proj b_proj g_proj wqkv"
)
_ROW = _words("o_proj out_proj down_proj w2 fc2 linear_fc2 c_proj dense dense_4h_to_h wo proj wo_b")
_HEAD_VECTORS = _words("sinks A_log dt_bias D")
_EXPERT_DOWN = _words("down_proj w2 linear_2")
_FUSED = {
    "q_proj": "qkv",
    "k_proj": "qkv",
    "v_proj": "qkv",
    "gate_proj": "gate_up",
    "up_proj": "gate_up",
    "w1": "gate_up",
    "w3": "gate_up",
    "q_a_proj": "qkv_a",
    "kv_a_proj_with_mqa": "qkv_a",
}


def _layer_of(stem: str, layers: int) -> tuple[int | None, bool]:
    """(layer, is it a next-token-prediction layer) of a module path; `layers` is the target's own layer count."""
    found = _LAYER.search(stem + ".")
    layer = int(found.group(1)) if found else None
    nextn = bool(_NEXTN.search(stem)) or (layer is not None and layer >= layers and not _VISION.search(stem))
    return layer, nextn


def place(name: str, num_hidden_layers: int) -> Place:
    """Classify one tensor. Unknown names inside a layer are taken as replicated, which errs towards more memory."""
    # All experts of a layer share one place, so a large mixture costs one look-up per tensor.
    return _place(_EXPERT_NUMBER.sub(r"\1.", name), num_hidden_layers)


@lru_cache(maxsize=16384)
def _place(name: str, num_hidden_layers: int) -> Place:
    stem, part = _split(name)
    layer, nextn = _layer_of(stem, num_hidden_layers)
    module = stem.rpartition(".")[2]
    param = _FUSED.get(module, module)
    if _VISION.search(stem):
        return Place(
            Role.VISION, _vision_shard(stem, module, part, layer), layer, module, f"vision.{param}", part, nextn
        )
    if stem.endswith(("rotary_emb", "rotary_emb.inv_freq")) or part == "inv_freq" or module in ("d2t", "t2d"):
        return Place(Role.OTHER, Shard.NOT_LOADED, layer, module, param, part, nextn)
    if _EXPERT.search(stem):
        down = module in _EXPERT_DOWN or module.startswith("down_proj")
        return Place(Role.EXPERTS, Shard.EXPERT, layer, module, "w2" if down else "w13", part, nextn)
    if module in _EMBED:
        return Place(Role.EMBED, Shard.VOCAB, layer, module, param, part, nextn)
    if module in _HEAD or stem.endswith("shared_head.head"):
        return Place(Role.LM_HEAD, Shard.VOCAB, layer, module, param, part, nextn)
    role, shard = _text_place(stem, module, part)
    scope = "shared" if role is Role.SHARED_EXPERTS else role.name.lower()
    return Place(role, shard, layer, module, f"{scope}.{param}", part, nextn)


def _split(name: str) -> tuple[str, str]:
    """Module path and the part of it that this tensor holds."""
    head, _, tail = name.rpartition(".")
    if head and tail in _PARTS:
        return head, tail
    if tail in _HEAD_VECTORS or tail in _ROUTER:
        return name, "weight"
    for suffix in ("_blocks", "_scales", "_bias", "_scale_inv", "_scale"):
        if tail.endswith(suffix) and len(tail) > len(suffix):
            return f"{head}.{tail.removesuffix(suffix)}", suffix[1:]
    return name, "weight"


def _text_place(stem: str, module: str, part: str) -> tuple[Role, Shard]:
    if module in _ROUTER or part == "e_score_correction_bias":
        return Role.ROUTER, Shard.REPLICATED
    if "norm" in module or module in ("ln_1", "ln_2", "ln_f", "enorm", "hnorm"):
        return Role.NORM, Shard.REPLICATED
    if module in _DRAFT:
        return Role.DRAFT, Shard.REPLICATED
    if ".indexer." in f".{stem}." or ".compressor." in f".{stem}.":
        return Role.ATTENTION, Shard.REPLICATED
    role = Role.MLP if re.search(r"(?:^|\.)(?:mlp|feed_forward|ffn|block_sparse_moe)(?:\.|$)", stem) else Role.ATTENTION
    if _SHARED.search(stem):
        role = Role.SHARED_EXPERTS
    return (role if _shard(module, part) is not None else Role.OTHER), _shard(module, part) or Shard.REPLICATED


def _shard(module: str, part: str) -> Shard | None:
    """The rule of a text module, None when the name is unknown."""
    if part in ("k_scale", "v_scale", "input_scale", "weight_scale_2", "weight_shape", "input_global_scale"):
        return Shard.REPLICATED
    if module in _KV:
        return Shard.KV
    if module in _QKV:
        return Shard.QKV
    if module in _COLUMN or module in _HEAD_VECTORS:
        return Shard.COLUMN
    if module in _ROW:
        # A row-parallel layer adds its bias once, after the reduction: every rank keeps all of it.
        return Shard.REPLICATED if part == "bias" else Shard.ROW
    return Shard.REPLICATED if module in _REPLICATED else None


def _vision_shard(stem: str, module: str, part: str, layer: int | None) -> Shard:
    """Attention and MLP of the encoder blocks are tensor parallel; patch embedding and projector are replicated."""
    if layer is None or "norm" in module or re.search(r"(?:^|\.)mlp\.fc[01]$", stem):
        return Shard.REPLICATED
    if module in _COLUMN or module in _KV or module in _QKV:
        return Shard.COLUMN
    if module in _ROW and part != "bias":
        return Shard.ROW
    return Shard.REPLICATED
