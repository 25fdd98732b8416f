"""SGLang's automatic `mem_fraction_static`, with its parts.

Sources: ServerArgs.__post_init__ (0.4.6 – 0.5.2, server_args.py), ServerArgs._handle_gpu_memory_settings (0.5.3 –
0.5.19), arg_groups/memory_hook.py (>= 0.5.20). It is computed before the model-specific, DP-attention and speculative
handlers, so from the chunk before it is divided by dp, and the graph batch before speculation limits the requests.
"""

from tui.frozen import frozen
from tui.sglang.memknobs import MemoryKnobs, ModelTraits
from tui.sglang.prefillgraph import PrefillGraph, prefill_graph
from tui.sglang.speculation import surcharge_mib
from tui.sglang.tiers import chunked_prefill_size, cuda_graph_max_bs
from tui.sglang.versions import Era, Version, find_era

_GIB = 1024  # MiB
_DEFAULT_MAX_PREFILL_TOKENS = 16384
ACTIVATION_MIB = 1.5  # SGLang's allowance for each token of a prefill chunk
GRAPH_MIB = 2  # and for each request of the largest decode graph
_CONSTANT_MIB = 512
_FLOOR_MIB = 10 * _GIB
_AITER_FACTOR, _AITER_CONTEXT = 0.85, 8192
_VISION_LAYERS, _VISION_HIDDEN = 24, 1024

Term = tuple[str, float]


@frozen
class AutoFraction:
    """The fraction that will be in force and where it comes from.

    `value`: None when it cannot be told (`reason`). `source`: "user", "automatic" or "fallback" (card size unknown).
    `terms`: (what, MiB), which sum to `reserve_mib`; (card - reserve) / card, rounded to 3 digits, is `base`, and
    `base` times every one of `factors` is the value, which SGLang does not round again. `reserve_mib` is None, and
    `terms` empty, for the user's value, for the fallback, and in era B (a table).
    """

    value: float | None
    source: str
    gpu_mem_mib: float | None = None
    reserve_mib: float | None = None
    terms: tuple[Term, ...] = ()
    base: float | None = None
    factors: tuple[tuple[str, float], ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    def formula(self) -> str:
        """The computation with its numbers filled in, on one line."""
        if self.value is None:
            return self.reason or "unknown"
        factors = "".join(f" x {factor:.4f} ({name})" for name, factor in self.factors)
        if self.reserve_mib is None or self.gpu_mem_mib is None:
            return f"{self.base if self.base is not None else self.value:g} ({self.source}){factors} = {self.value:.4f}"
        terms = " + ".join(f"{mib:g} {name}" for name, mib in self.terms)
        card = f"{self.gpu_mem_mib:g}"
        return f"({card} - ({terms})) / {card} = {self.base:.3f}{factors} -> {self.value:.4f}"


def vision_factor(layers: int | None, hidden: int | None) -> float:
    """What a vision tower multiplies the fraction by, 0.76 to 0.9975 (adjust_mem_fraction_for_vlm, >= 0.4.9).

    `layers` and `hidden` are vision_config's num_hidden_layers and hidden_size; a missing one counts as 24 and 1024.
    """
    count = _VISION_LAYERS if layers is None else layers
    width = _VISION_HIDDEN if hidden is None else hidden
    complexity = count * width**2 / (_VISION_LAYERS * _VISION_HIDDEN**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (complexity - 1.0)))


def automatic_fraction(
    version: Version | None,
    gpu_mem_mib: float | None,
    knobs: MemoryKnobs,
    model: ModelTraits | None = None,
    *,
    post_capture_kv_sizing: bool = False,
    honor_explicit_fraction: bool = False,
    xpu: bool = False,
) -> AutoFraction:
    """`mem_fraction_static` as SGLang will resolve it.

    `gpu_mem_mib`: MiB, the smallest memory.total over every GPU that nvidia-smi lists; None if it cannot be read.
    `post_capture_kv_sizing`: SGLANG_ENABLE_POST_CAPTURE_KV_SIZING is set (>= 0.5.16) and its conditions hold.
    `honor_explicit_fraction`: SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION is set (>= 0.5.19). With an unknown version
    only a value that the user set is returned.
    """
    traits = model or ModelTraits()
    finding = find_era(version)
    user = knobs.mem_fraction_static
    if version is None or finding.era is None:
        if user is not None:
            return AutoFraction(value=user, source="user", base=user, gpu_mem_mib=gpu_mem_mib)
        return AutoFraction(value=None, source="automatic", gpu_mem_mib=gpu_mem_mib, reason=finding.reason)
    warnings = [finding.warning] if finding.warning else []
    post_capture = post_capture_kv_sizing and version.at_least(0, 5, 16) and not traits.mla
    terms: tuple[Term, ...] = ()
    if user is None and gpu_mem_mib is not None and finding.era is not Era.B:
        terms = _reserve_terms(version, finding.era, gpu_mem_mib, knobs, traits, post_capture, xpu)
    base, source = _base(version, finding.era, gpu_mem_mib, knobs, terms)
    if source == "fallback":
        warnings.append(f"The size of the GPUs is not known, so SGLang falls back to {base}.")
    factors = _factors(version, knobs, traits, post_capture, honor_explicit_fraction)
    value = base
    for _, factor in factors:
        value *= factor
    if user is None and post_capture and gpu_mem_mib is not None and _is_vision(version, knobs, traits):
        value -= 8 * _GIB / gpu_mem_mib
        warnings.append("With post-capture sizing SGLang keeps 8 GiB for the image encoder.")
    return AutoFraction(
        value=value,
        source=source,
        gpu_mem_mib=gpu_mem_mib,
        reserve_mib=sum(mib for _, mib in terms) if terms else None,
        terms=terms,
        base=base,
        factors=factors,
        warnings=tuple(warnings),
    )


def _base(
    version: Version, era: Era, gpu_mem_mib: float | None, knobs: MemoryKnobs, terms: tuple[Term, ...]
) -> tuple[float, str]:
    """The fraction before any factor, and its source."""
    if knobs.mem_fraction_static is not None:
        return knobs.mem_fraction_static, "user"
    if gpu_mem_mib is None:
        return (0.95 if version.at_least(0, 5, 20) else 0.88), "fallback"
    if era is Era.B:
        return _table_of_era_b(gpu_mem_mib, knobs.tp * knobs.pp), "automatic"
    return round((gpu_mem_mib - sum(mib for _, mib in terms)) / gpu_mem_mib, 3), "automatic"


def _table_of_era_b(gpu_mem_mib: float, ranks: int) -> float:
    """0.4.6: by tp x pp up to 80 GiB; 0.88 above, and more on cards above 96 GiB."""
    if gpu_mem_mib <= 81_920:
        table = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
        return next((value for least, value in table if ranks >= least), 0.88)
    if gpu_mem_mib > 96 * _GIB:
        return min(0.88 + 48 * _GIB * (1 - 0.88) / gpu_mem_mib, (gpu_mem_mib - 18 * _GIB) / gpu_mem_mib)
    return 0.88


def _reserve_terms(
    version: Version,
    era: Era,
    gpu_mem_mib: float,
    knobs: MemoryKnobs,
    model: ModelTraits,
    post_capture: bool,
    xpu: bool,
) -> tuple[Term, ...]:
    """The reserve in MiB by name; a floor that applies is a term of its own, so the terms always sum to the reserve."""
    if era is Era.C:
        terms = _terms_of_era_c(gpu_mem_mib, knobs)
    elif post_capture:
        constant = 1536 if version.at_least(0, 5, 18) else _CONSTANT_MIB
        terms = [("constant", constant), ("ranks", knobs.tp * knobs.pp / 8 * _GIB)]
    else:
        terms = _terms_of_formula(version, gpu_mem_mib, knobs, model, xpu)
    extra = surcharge_mib(version, knobs.speculative_algorithm)
    if extra:
        terms.append(("speculation", extra))
    if era is Era.C and knobs.dp_attention:
        terms.append(("DP attention", 4096))
    return tuple(terms)


def _terms_of_era_c(gpu_mem_mib: float, knobs: MemoryKnobs) -> list[Term]:
    ranks = knobs.tp * knobs.pp
    if gpu_mem_mib < 35 * _GIB:
        return [("constant", 2.8 * _GIB), ("ranks", ranks / 10 * _GIB)]
    if gpu_mem_mib < 90 * _GIB:
        return [("constant", 9.5 * _GIB), ("ranks", ranks / 2 * _GIB)]
    if gpu_mem_mib < 160 * _GIB:
        return [("constant", 12 * _GIB), ("ranks", ranks / 2 * _GIB)]
    return [("constant", 32 * _GIB)]


def _terms_of_formula(
    version: Version, gpu_mem_mib: float, knobs: MemoryKnobs, model: ModelTraits, xpu: bool
) -> list[Term]:
    """0.5.3 and later. DP attention takes 3 MiB per graph batch and replica, 4.5 above a batch of 300."""
    by_role = version.at_least(0, 5, 16)
    role = knobs.disaggregation
    chunk = chunked_prefill_size(version, gpu_mem_mib, knobs)
    batch = cuda_graph_max_bs(version, gpu_mem_mib, knobs) or 0
    decode_graph = knobs.decode_graph_enabled and role != "prefill"
    graph = prefill_graph(version, chunk, knobs, model)
    terms: list[Term] = [
        ("constant", _CONSTANT_MIB),
        ("activations", ACTIVATION_MIB * _activation_tokens(version, knobs, chunk, batch)),
    ]
    if not by_role or decode_graph:
        terms.append(("decode graphs", GRAPH_MIB * batch))
    terms.append(("ranks", knobs.tp * knobs.pp / 8 * _GIB))
    if knobs.dp_attention and not (by_role and role == "prefill"):
        dp = knobs.attn_dp
        terms.append(("DP attention", batch * dp * (4.5 if batch > 300 else 3)))
    terms += _prefill_terms(version, knobs, graph)
    # In 0.5.6 and 0.5.7 the opted-in piecewise term comes after the floor.
    late = [terms.pop()] if graph.enabled and version.before(0, 5, 8) and graph.reserve_mib else []
    so_far = sum(mib for _, mib in terms)
    if gpu_mem_mib > 60 * _GIB and so_far < _FLOOR_MIB:
        terms.append(("floor of 10 GiB", _FLOOR_MIB - so_far))
    terms += late
    if by_role and decode_graph and knobs.moe_a2a_backend == "deepep":
        terms.append(("DeepEP buffers", 2 * _GIB))
    if by_role and xpu:
        terms.append(("XPU scratch", 2 * _GIB))
    return terms


def _activation_tokens(version: Version, knobs: MemoryKnobs, chunk: int, batch: int) -> int:
    if version.at_least(0, 5, 16) and knobs.disaggregation == "decode":
        requests = knobs.max_running_requests or batch or 1
        return max(requests * (knobs.speculative_num_draft_tokens or 1), 2048)
    if chunk > 0:
        return max(chunk, 2048)
    return max(knobs.max_prefill_tokens or _DEFAULT_MAX_PREFILL_TOKENS, 2048)


def _prefill_terms(version: Version, knobs: MemoryKnobs, graph: PrefillGraph) -> list[Term]:
    by_role = version.at_least(0, 5, 16)
    if not graph.enabled or (by_role and knobs.disaggregation == "decode"):
        return []
    terms: list[Term] = []
    if by_role and knobs.moe_a2a_backend == "deepep":
        terms.append(("DeepEP prefill graph", _GIB))
    if graph.reserve_mib:
        terms.append(("prefill graphs", graph.reserve_mib))
    return terms


def _is_vision(version: Version, knobs: MemoryKnobs, model: ModelTraits) -> bool:
    if not model.multimodal or version.before(0, 4, 9):
        return False
    if knobs.language_only and version.at_least(0, 5, 9):
        return False
    skipped = bool(knobs.language_model_only) or knobs.disaggregation == "decode"
    return not (skipped and version.at_least(0, 5, 18))


def _factors(
    version: Version, knobs: MemoryKnobs, model: ModelTraits, post_capture: bool, honor_explicit: bool
) -> tuple[tuple[str, float], ...]:
    found = []
    automatic = knobs.mem_fraction_static is None
    if automatic and not post_capture and model.has_vision_config and _is_vision(version, knobs, model):
        found.append(("vision tower", vision_factor(model.vision_layers, model.vision_hidden)))
    honored = honor_explicit and not automatic and version.at_least(0, 5, 19)
    context = knobs.context_length if knobs.context_length is not None else model.context_len
    long_context = context is not None and context > _AITER_CONTEXT
    if knobs.attention_backend == "aiter" and long_context and version.at_least(0, 5, 4) and not honored:
        found.append(("aiter", _AITER_FACTOR))
    return tuple(found)
