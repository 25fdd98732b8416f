"""A checkpoint folder, as `tui.models` read it, becomes the model of a forecast."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui.forecast.amounts import estimated
from tui.forecast.model import ModelFacts
from tui.models.checkpoint import Checkpoint
from tui.models.draft import Draft
from tui.models.draft_weights import draft_weights
from tui.models.geometry import AttentionKind, ModelGeometry, kv_geometry
from tui.models.weights import weights_per_rank
from tui.sglang.kvcell import KvGeometry, KvKind
from tui.sglang.memknobs import MemoryKnobs, ModelTraits, memory_knobs
from tui.sglang.versions import Version
from tui.snapshot import UNKNOWN, Amount

GIB = 1 << 30
# Sizes worked out from headers ran 0.4 to 0.8 % below what servers logged.
WEIGHTS_MARGIN = 0.015
# Window layers have a pool of their own since at least these versions (configs/model_config.py: is_hybrid_swa_model);
# before, they are counted as full layers, which errs to fewer tokens.
_SWA_POOL_SINCE = dict.fromkeys(
    ("Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM", "Step3p5ForCausalLM"), (0, 5, 9)
)
_SWA_POOL_READ = (0, 5, 23)


def model_facts(version: Version, checkpoint: Checkpoint, draft: Draft | None, knobs: Mapping[str, Any]) -> ModelFacts:
    """The numbers of a checkpoint, and of its draft, under these knobs. Raises ValueError for an impossible layout."""
    own = memory_knobs(knobs)
    geometry = kv_geometry(checkpoint)
    base, notes = _base(checkpoint, knobs, own)
    gross, shared, draft_notes = _draft(draft, knobs, own)
    return ModelFacts(
        base=base,
        draft_gross=gross,
        draft_shared_gib=shared,
        target=to_kv_geometry(version, geometry, checkpoint.architectures, own),
        draft=_draft_geometry(version, draft, own),
        traits=model_traits(checkpoint, geometry),
        context_len=checkpoint.context_length,
        attention_heads=checkpoint.num_attention_heads,
        kv_heads=checkpoint.num_key_value_heads,
        quantization=checkpoint.quantization,
        notes=notes + draft_notes,
    )


def model_traits(checkpoint: Checkpoint, geometry: ModelGeometry) -> ModelTraits:
    """What SGLang's argument handling looks at in the target's config."""
    vision = checkpoint.vision
    return ModelTraits(
        architecture=checkpoint.architectures[0] if checkpoint.architectures else None,
        mla=geometry.is_mla,
        dsa=geometry.index_head_dim is not None,
        multimodal=vision is not None,
        has_vision_config=vision is not None,
        vision_layers=vision.num_hidden_layers if vision else None,
        vision_hidden=vision.hidden_size if vision else None,
        context_len=checkpoint.context_length,
        model_path=checkpoint.path,
    )


def to_kv_geometry(
    version: Version, geometry: ModelGeometry, architectures: tuple[str, ...], knobs: MemoryKnobs
) -> KvGeometry:
    """A checkpoint's geometry as the cell size takes it: window layers apart only where this version pools them."""
    own_pool = geometry.swa_pool and _pools_windows(version, architectures)
    full = geometry.count("full") + (0 if own_pool else geometry.count("swa"))
    kind = KvKind.DSA if geometry.index_head_dim else KvKind.MLA if geometry.is_mla else KvKind.MHA
    return KvGeometry(
        kind=KvKind.SWA if own_pool else kind,
        layers=full,
        dtype=geometry.dtype,
        kv_heads=geometry.num_kv_heads,
        head_dim=geometry.head_dim,
        v_head_dim=geometry.v_head_dim,
        kv_lora_rank=geometry.kv_lora_rank or 0,
        qk_rope_head_dim=geometry.qk_rope_head_dim or 0,
        index_dim=geometry.index_head_dim or 0,
        swa_layers=geometry.count("swa") if own_pool else 0,
        swa_kv_heads=geometry.swa_num_kv_heads,
        swa_head_dim=geometry.swa_head_dim,
        swa_v_head_dim=geometry.swa_v_head_dim,
        sliding_window=geometry.sliding_window,
        state_bytes_per_request=_state_bytes(geometry, knobs),
        checkpoint_fp8_kv=geometry.kv_cache_dtype == "fp8_e4m3",
    )


def _pools_windows(version: Version, architectures: tuple[str, ...]) -> bool:
    since = min((_SWA_POOL_SINCE.get(name, _SWA_POOL_READ) for name in architectures), default=_SWA_POOL_READ)
    return version.release >= since


def _state_bytes(geometry: ModelGeometry, knobs: MemoryKnobs) -> int:
    """Recurrent state of one request on one rank of the fullest pipeline stage."""
    state = geometry.linear_state
    if geometry.kind is not AttentionKind.LINEAR_HYBRID or state is None:
        return 0
    layers = -(-geometry.count("linear") // knobs.pp)
    return (state.conv_bytes(knobs.attn_tp) + state.ssm_bytes(knobs.attn_tp)) * layers


def _base(checkpoint: Checkpoint, knobs: Mapping[str, Any], own: MemoryKnobs) -> tuple[Amount, tuple[str, ...]]:
    ranks = weights_per_rank(
        checkpoint,
        own.tp,
        _whole(knobs, "ep-size", "expert-parallel-size", "ep") or 1,
        own.pp,
        attn_dp=own.attn_dp,
        moe_dense_tp=_whole(knobs, "moe-dense-tp-size"),
        encoder_dp=bool(knobs.get("mm-enable-dp-encoder")),
        dp_lm_head=bool(knobs.get("enable-dp-lm-head")),
        language_only=bool(own.language_only),
        quantization=_text(knobs, "quantization"),
        dtype=_text(knobs, "dtype") or "auto",
    )
    fullest = max(ranks, key=lambda rank: rank.loaded_bytes)
    gib = fullest.loaded_bytes / GIB
    spread = f", split over {len(ranks)} ranks" if len(ranks) > 1 else ""
    why = f"the headers of {checkpoint.num_tensors} tensors{spread}"
    return estimated(gib, gib, gib * (1 + WEIGHTS_MARGIN), why), fullest.notes


def _draft(draft: Draft | None, knobs: Mapping[str, Any], own: MemoryKnobs) -> tuple[Amount, float, tuple[str, ...]]:
    if draft is None:
        return UNKNOWN, 0.0, ()
    found = draft_weights(
        draft,
        own.tp,
        _whole(knobs, "ep-size", "expert-parallel-size", "ep") or 1,
        attn_dp=own.attn_dp,
        quantization=_text(knobs, "speculative-draft-model-quantization"),
        dtype=_text(knobs, "dtype") or "auto",
    )
    gib = found.gross_bytes / GIB
    amount = estimated(gib, gib, gib * (1 + WEIGHTS_MARGIN), "the headers of the draft's tensors")
    return amount, found.shared_bytes / GIB, found.notes


def _draft_geometry(version: Version, draft: Draft | None, knobs: MemoryKnobs) -> KvGeometry | None:
    if draft is None:
        return None
    found = to_kv_geometry(version, kv_geometry(draft.checkpoint), draft.checkpoint.architectures, knobs)
    return replace(found, layers=draft.budget_layers, swa_layers=0, state_bytes_per_request=0)


def _whole(knobs: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = knobs.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _text(knobs: Mapping[str, Any], name: str) -> str | None:
    value = knobs.get(name)
    return value if isinstance(value, str) else None
