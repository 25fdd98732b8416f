"""What a speculative algorithm means for memory and defaults."""

from tui.frozen import frozen
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.versions import Era, Version, era

DEFAULT_RUNNING_REQUESTS = 48
NGRAM_DRAFT_TOKENS = 12

# Algorithms that load no draft model.
_WITHOUT_DRAFT = ("NGRAM",)
# The algorithms whose draft shares the target's token indices through SGLang's EAGLE worker.
_EAGLE_FAMILY = ("EAGLE", "EAGLE3", "NEXTN")
_DFLASH_FAMILY = ("DFLASH", "DSPARK")

_SHORT_CHAIN = (3, 1, 4)
_TREE = (5, 4, 8)
_TREE_ARCHITECTURES = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")
_SHORT_CHAIN_ARCHITECTURES = (
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV2ForCausalLM",
    "GptOssForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
    "BailingMoeV2_5ForCausalLM",
    "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration",
    "MiMoV2ForCausalLM",
    "MiMoV2FlashForCausalLM",
)


@frozen(kw_only=False)
class SpeculativeParams:
    """Steps of the draft, branches per step, tokens that one verify pass checks. `chosen_by`: "user" or "sglang"."""

    num_steps: int
    eagle_topk: int
    num_draft_tokens: int
    chosen_by: str
    warning: str | None = None


def has_draft_model(algorithm: str | None) -> bool:
    """Whether a second model is loaded; NGRAM only widens the verify graph."""
    return algorithm is not None and algorithm not in _WITHOUT_DRAFT


def is_eagle_family(algorithm: str | None) -> bool:
    """EAGLE, EAGLE3 and NEXTN (which is EAGLE inside SGLang)."""
    return algorithm in _EAGLE_FAMILY


def is_dflash_family(algorithm: str | None) -> bool:
    """DFLASH and DSPARK: the draft's own KV geometry is budgeted."""
    return algorithm in _DFLASH_FAMILY


def surcharge_mib(version: Version, algorithm: str | None) -> int:
    """MiB that the automatic fraction reserves for speculation, by era.

    Era B 0; C 2048 for any algorithm (server_args.py, __post_init__); D and E 2048, F 4096 for everything but
    STANDALONE (6144) and NGRAM (0) (server_args.py, _handle_gpu_memory_settings); G 0, because draft weights and
    draft KV are in the static budget. Raises ValueError for a version without an era.
    """
    found = era(version)
    if found is None:
        raise ValueError(f"The memory rules of SGLang {version} are not known.")
    if algorithm is None or found in (Era.B, Era.G):
        return 0
    if found is Era.C:
        return 2048
    if algorithm == "STANDALONE":
        return 6144
    if algorithm == "NGRAM":
        return 0
    return 4096 if found is Era.F else 2048


def auto_speculative_params(
    version: Version, algorithm: str | None, architecture: str | None
) -> SpeculativeParams | None:
    """What SGLang chooses when none of steps, top-k and draft tokens is given; None where it chooses nothing.

    Source: auto_choose_speculative_params (server_args.py; >= 0.5.20 arg_groups/speculative_hook.py). STANDALONE 3/1/4;
    Llama and Grok 5/4/8; a list of DeepSeek-like architectures 3/1/4 since 0.4.9; every other one 5/4/8 up to 0.5.7 and
    3/1/4 from 0.5.8 on. None for NGRAM (`NGRAM_DRAFT_TOKENS`), DFLASH (its config says) and an unknown architecture.
    """
    if algorithm == "STANDALONE":
        return SpeculativeParams(*_SHORT_CHAIN, "sglang")
    if not is_eagle_family(algorithm) or architecture is None:
        return None
    if architecture in _TREE_ARCHITECTURES:
        chosen = _TREE
    elif architecture in _SHORT_CHAIN_ARCHITECTURES:
        chosen = _SHORT_CHAIN if version.at_least(0, 4, 9) else _TREE
    else:
        chosen = _SHORT_CHAIN if version.at_least(0, 5, 8) else _TREE
    return SpeculativeParams(*chosen, "sglang")


def speculative_params(version: Version, knobs: MemoryKnobs, architecture: str | None) -> SpeculativeParams | None:
    """The parameters that will be in force: the user's, else SGLang's choice; None when neither is known.

    Top-k 1 makes SGLang set draft tokens to steps + 1, with a warning (all versions).
    """
    if knobs.speculative_num_steps is None:
        return auto_speculative_params(version, knobs.speculative_algorithm, architecture)
    if knobs.speculative_algorithm is None or not has_draft_model(knobs.speculative_algorithm):
        return None
    steps = knobs.speculative_num_steps
    topk = knobs.speculative_eagle_topk if knobs.speculative_eagle_topk is not None else 1
    tokens = knobs.speculative_num_draft_tokens
    warning = None
    if topk == 1 and tokens != steps + 1:
        if tokens is not None:
            warning = f"With top-k 1 SGLang sets the draft tokens to steps + 1 = {steps + 1}, not {tokens}."
        tokens = steps + 1
    if tokens is None:
        return None
    return SpeculativeParams(steps, topk, tokens, "user", warning)


def draft_tokens(version: Version, knobs: MemoryKnobs, architecture: str | None = None) -> int:
    """Tokens that one verify pass adds to a request's row: 0 without speculation or when they are not known."""
    if knobs.speculative_algorithm is None:
        return 0
    if knobs.speculative_algorithm == "NGRAM":
        return knobs.speculative_num_draft_tokens or NGRAM_DRAFT_TOKENS
    params = speculative_params(version, knobs, architecture)
    return params.num_draft_tokens if params else (knobs.speculative_num_draft_tokens or 0)


def running_requests_setting(knobs: MemoryKnobs) -> int | None:
    """`max_running_requests` after argument handling: the user's, 48 with any speculation, else None (sized later).

    All versions since 0.4.6; the warning text is from 0.5.4 on.
    """
    if knobs.max_running_requests is None and knobs.speculative_algorithm is not None:
        return DEFAULT_RUNNING_REQUESTS
    return knobs.max_running_requests
