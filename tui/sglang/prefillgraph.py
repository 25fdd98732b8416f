"""Whether SGLang captures prefill (piecewise, breakable) CUDA graphs, and what the automatic fraction reserves.

Sources: ServerArgs._handle_piecewise_cuda_graph (0.5.10 – 0.5.13), _handle_cuda_graph_config and its compatibility
rules (0.5.14 – 0.5.19, server_args.py), arg_groups/cuda_graph_hook.py (>= 0.5.20). They run before the fraction is
computed.
"""

from collections.abc import Iterator

from tui.frozen import frozen
from tui.sglang.memknobs import MemoryKnobs, ModelTraits
from tui.sglang.tiers import prefill_buckets, prefill_graph_max_tokens
from tui.sglang.versions import Era, Version, era

_MIB_PER_BUCKET = 8
_MLA_MIB = 1536
_BREAKABLE_A2A = ("none", "deepep", "megamoe", "flashinfer")

# Multimodal architectures whose language model may be captured, by the first version that was read with them.
_MULTIMODAL_CAPTURED = {
    "MiniMaxM3SparseForCausalLM": (0, 5, 14),
    "MiniMaxM3SparseForConditionalGeneration": (0, 5, 14),
    "Cohere2VisionForConditionalGeneration": (0, 5, 14),
    "Glm5NextForConditionalGeneration": (0, 5, 23),
    "InternS2MobiusForConditionalGeneration": (0, 5, 18),
    "PaddleOCRVLForConditionalGeneration": (0, 5, 23),
    "Qwen3_5ForConditionalGeneration": (0, 5, 16),
    "Qwen3_5MoeForConditionalGeneration": (0, 5, 16),
    "Qwen4ExpForConditionalGeneration": (0, 5, 23),
    "MuseGlimmerForConditionalGeneration": (0, 5, 18),
    "MuseSparkForConditionalGeneration": (0, 5, 23),
    "KimiK3ForConditionalGeneration": (0, 5, 18),
    "KimiK25ForConditionalGeneration": (0, 5, 18),
}


@frozen(kw_only=False)
class PrefillGraph:
    """`enabled` with the reason when it is off; `reserve_mib` is the fraction's term, `buckets` the captured sizes."""

    enabled: bool
    reserve_mib: int
    buckets: tuple[int, ...] = ()
    reason: str | None = None


def _multimodal_blocked(version: Version, model: ModelTraits) -> bool:
    """Multimodal models are not captured unless listed; an architecture that is not known is taken as captured."""
    if not model.multimodal or model.architecture is None:
        return False
    first = _MULTIMODAL_CAPTURED.get(model.architecture)
    return first is None or version.release < first


def _piecewise_blockers(version: Version, knobs: MemoryKnobs, model: ModelTraits) -> Iterator[str]:
    """Why torch.compile-based prefill graphs (0.5.10 – 0.5.14) are turned off."""
    checks = (
        (version.release == (0, 5, 10) and knobs.speculative_algorithm is not None, "speculation"),
        (knobs.dp_attention, "DP attention"),
        (bool(knobs.enable_torch_compile), "torch.compile"),
        (knobs.pp > 1, "pipeline parallelism"),
        ((knobs.moe_a2a_backend or "none") != "none", "an all-to-all MoE backend"),
        (bool(knobs.enable_lora), "LoRA"),
        (_multimodal_blocked(version, model), "a multimodal model"),
        (bool(knobs.enable_hierarchical_cache) or (knobs.cpu_offload_gb or 0) > 0, "host offload"),
        (bool(knobs.enable_deterministic_inference), "deterministic inference"),
        (knobs.disaggregation != "null", "PD disaggregation"),
        (bool(knobs.enable_symm_mem), "symmetric memory"),
    )
    return (reason for applies, reason in checks if applies)


def _breakable_blockers(version: Version, knobs: MemoryKnobs, model: ModelTraits) -> Iterator[str]:
    """Why breakable prefill graphs (the default on CUDA from 0.5.15 on) are turned off."""
    early = version.before(0, 5, 17)
    mla_blocked = model.mla and (early or (version.before(0, 5, 18) and not model.dsa))
    a2a = knobs.moe_a2a_backend or "none"
    checks = (
        (mla_blocked, "MLA attention"),
        ((knobs.dcp_size or 1) > 1, "decode context parallelism"),
        (early and knobs.dp_attention, "DP attention"),
        (early and bool(knobs.enable_lora), "LoRA"),
        (a2a != "none" if early else a2a not in _BREAKABLE_A2A, "the all-to-all MoE backend"),
        (not early and bool(knobs.enable_two_batch_overlap), "two-batch overlap"),
        (version.at_least(0, 5, 20) and knobs.pp > 1, "pipeline parallelism"),
        (_multimodal_blocked(version, model), "a multimodal model"),
    )
    return (reason for applies, reason in checks if applies)


def _off_by_flag(version: Version, knobs: MemoryKnobs) -> str | None:
    if version.before(0, 5, 14):
        return "--disable-piecewise-cuda-graph" if knobs.disable_piecewise_cuda_graph else None
    if knobs.cuda_graph_backend_prefill is not None:
        return "the prefill graph backend" if knobs.cuda_graph_backend_prefill == "disabled" else None
    if knobs.disable_cuda_graph:
        return "--disable-cuda-graph"
    if knobs.disable_prefill_cuda_graph or knobs.disable_piecewise_cuda_graph:
        return "--disable-prefill-cuda-graph"
    return None


def _blocker(version: Version, knobs: MemoryKnobs, model: ModelTraits) -> str | None:
    off = _off_by_flag(version, knobs)
    if off is not None:
        return off
    if knobs.enforce_piecewise_cuda_graph or (
        version.at_least(0, 5, 14) and knobs.cuda_graph_backend_prefill is not None
    ):
        return None
    blockers = _piecewise_blockers if version.before(0, 5, 15) else _breakable_blockers
    return next(blockers(version, knobs, model), None)


def prefill_graph(version: Version, chunk: int, knobs: MemoryKnobs, model: ModelTraits) -> PrefillGraph:
    """State and reserve (MiB) of prefill graphs; `chunk` is the chunked prefill size that applies.

    Opted in: 0.5.6 max tokens // 4, 0.5.7 max tokens // 8, 0.5.8 – 0.5.9 8 MiB per bucket. From 0.5.10 on by default:
    8 MiB per bucket, or 1536 MiB for MLA models.
    """
    found = era(version)
    limit = prefill_graph_max_tokens(version, chunk, knobs, model)
    if limit <= 0 and knobs.cuda_graph_bs_prefill is None:
        return PrefillGraph(False, 0, reason="chunked prefill is off")
    buckets = knobs.cuda_graph_bs_prefill or prefill_buckets(limit)
    if found in (Era.B, Era.C, Era.D, Era.E):
        if not knobs.enable_piecewise_cuda_graph:
            return PrefillGraph(False, 0, reason="it is opt-in before 0.5.10")
        if version.before(0, 5, 6):
            return PrefillGraph(True, 0, buckets)
        if version.before(0, 5, 8):
            return PrefillGraph(True, limit // (4 if version.before(0, 5, 7) else 8))
        reserve = _MIB_PER_BUCKET * len(buckets)
        return PrefillGraph(True, reserve, buckets)
    blocker = _blocker(version, knobs, model)
    if blocker is not None:
        return PrefillGraph(False, 0, reason=blocker)
    return PrefillGraph(True, _MLA_MIB if model.mla else _MIB_PER_BUCKET * len(buckets), buckets)
