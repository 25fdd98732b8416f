"""The knobs that decide SGLang's GPU memory budget, and what of the model it looks at.

Field names are SGLang's flag names with underscores, in their newest spelling where a flag was renamed. None means "not
given", so SGLang's own default applies.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from tui.frozen import frozen


@frozen
class MemoryKnobs:
    """What the operator set. Sizes are per server as given on the command line, not per rank."""

    tp_size: int | None = None
    pp_size: int | None = None
    dp_size: int | None = None
    attn_dp_size: int | None = None
    dcp_size: int | None = None
    enable_dp_attention: bool | None = None
    mem_fraction_static: float | None = None
    chunked_prefill_size: int | None = None
    max_prefill_tokens: int | None = None
    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    context_length: int | None = None
    page_size: int | None = None
    kv_cache_dtype: str | None = None
    cuda_graph_max_bs: int | None = None
    cuda_graph_bs: tuple[int, ...] | None = None
    cuda_graph_max_bs_prefill: int | None = None
    cuda_graph_bs_prefill: tuple[int, ...] | None = None
    cuda_graph_backend_decode: str | None = None
    cuda_graph_backend_prefill: str | None = None
    disable_cuda_graph: bool | None = None
    disable_decode_cuda_graph: bool | None = None
    disable_prefill_cuda_graph: bool | None = None
    disable_cuda_graph_padding: bool | None = None
    enable_piecewise_cuda_graph: bool | None = None
    disable_piecewise_cuda_graph: bool | None = None
    enforce_piecewise_cuda_graph: bool | None = None
    enable_torch_compile: bool | None = None
    speculative_algorithm: str | None = None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    attention_backend: str | None = None
    moe_a2a_backend: str | None = None
    enable_lora: bool | None = None
    enable_symm_mem: bool | None = None
    enable_two_batch_overlap: bool | None = None
    enable_hierarchical_cache: bool | None = None
    enable_deterministic_inference: bool | None = None
    enable_memory_saver: bool | None = None
    cpu_offload_gb: float | None = None
    disaggregation_mode: str | None = None
    language_only: bool | None = None
    language_model_only: bool | None = None
    mm_feature_transport: str | None = None
    disable_radix_cache: bool | None = None
    disable_overlap_schedule: bool | None = None
    mamba_scheduler_strategy: str | None = None
    max_mamba_cache_size: int | None = None
    mamba_full_memory_ratio: float | None = None
    swa_full_tokens_ratio: float | None = None

    @property
    def tp(self) -> int:
        return self.tp_size or 1

    @property
    def pp(self) -> int:
        return self.pp_size or 1

    @property
    def dp_attention(self) -> bool:
        """DP attention by either spelling: `--enable-dp-attention`, or `--attn-dp-size` above 1 (SGLang >= 0.5.22)."""
        return bool(self.enable_dp_attention) or (self.attn_dp_size or 1) > 1

    @property
    def attn_dp(self) -> int:
        """Attention data-parallel size: 1 without DP attention, where `dp_size` makes whole replicas instead."""
        if not self.dp_attention:
            return 1
        return self.attn_dp_size or self.dp_size or 1

    @property
    def attn_tp(self) -> int:
        """Ranks that share one attention layer's KV heads: tp / attention dp."""
        return max(1, self.tp // self.attn_dp)

    @property
    def disaggregation(self) -> str:
        return self.disaggregation_mode or "null"

    @property
    def decode_graph_enabled(self) -> bool:
        """False when a flag turns decode graphs off; the per-phase backend wins (cuda_graph_hook.py, >= 0.5.14)."""
        if self.cuda_graph_backend_decode is not None:
            return self.cuda_graph_backend_decode != "disabled"
        return not (self.disable_cuda_graph or self.disable_decode_cuda_graph)


@frozen
class ModelTraits:
    """What SGLang's argument handling looks at in the target's config. None = not known.

    `vision_layers`: vision_config.num_hidden_layers; `vision_hidden`: vision_config.hidden_size. For a model whose
    vision config lacks them SGLang takes 24 and 1024, so leave them None. `context_len`: the model's own limit in
    tokens. `has_vision_config`: False for multimodal models without a vision_config (audio), whose fraction is not
    lowered.
    """

    architecture: str | None = None
    mla: bool = False
    dsa: bool = False
    multimodal: bool = False
    has_vision_config: bool = True
    vision_layers: int | None = None
    vision_hidden: int | None = None
    context_len: int | None = None
    model_path: str = ""


# Spellings other than the field's own name with dashes.
_ALIASES = {
    "tp": "tp_size",
    "tensor-parallel-size": "tp_size",
    "pp": "pp_size",
    "pipeline-parallel-size": "pp_size",
    "dp": "dp_size",
    "data-parallel-size": "dp_size",
    "attention-data-parallel-size": "attn_dp_size",
    "cuda-graph-max-bs-decode": "cuda_graph_max_bs",
    "cuda-graph-bs-decode": "cuda_graph_bs",
    "piecewise-cuda-graph-max-tokens": "cuda_graph_max_bs_prefill",
    "piecewise-cuda-graph-tokens": "cuda_graph_bs_prefill",
    "speculative-draft-model": "speculative_draft_model_path",
    "decode-context-parallel-size": "dcp_size",
}


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _integers(value: Any) -> tuple[int, ...]:
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    return tuple(_integer(item) for item in ([items] if isinstance(items, int) else items))


def _switch(value: Any) -> bool:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered not in ("", "true", "false", "1", "0", "yes", "no"):
            raise ValueError
        return lowered in ("", "true", "1", "yes")
    return bool(value)


_READERS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    int | None: (_integer, "a whole number"),
    float | None: (_number, "a number"),
    tuple[int, ...] | None: (_integers, "a list of whole numbers"),
    bool | None: (_switch, "true or false"),
    str | None: (str, "a text"),
}


def model_path(knobs: Mapping[str, Any]) -> Any:
    """What the launch names as its model, under either name of the flag; None when it names none."""
    return knobs.get("model-path", knobs.get("model"))


def memory_knobs(mapping: Mapping[str, Any]) -> MemoryKnobs:
    """The knobs out of {flag name: value}, as a profile's [knobs] holds them; other flags are ignored.

    Names may have leading dashes, and underscores for dashes; old and new spellings are accepted. A None value counts
    as not given. Raises ValueError, with a sentence that names the flag, when a value has the wrong type.
    """
    types = {field.name: field.type for field in fields(MemoryKnobs)}
    found: dict[str, Any] = {}
    for raw, value in mapping.items():
        name = raw.lstrip("-").replace("_", "-")
        target = _ALIASES.get(name, name.replace("-", "_"))
        if target not in types or value is None:
            continue
        read, wanted = _READERS[types[target]]
        try:
            found[target] = read(value)
        except (TypeError, ValueError):
            raise ValueError(f"--{name} needs {wanted}, not {value!r}.") from None
    algorithm = found.get("speculative_algorithm")
    if algorithm is not None:
        found["speculative_algorithm"] = algorithm.upper()
    return MemoryKnobs(**found)
