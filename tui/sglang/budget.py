"""The memory equation: how many KV tokens a fraction leaves, and which fraction is needed.

    rest = A - P (1 - f) [- multimodal reservation] [- recurrent state]      tokens = floor(rest x 2^30 / cell)

P: GiB free before weights, A: GiB free when the pool is sized, both the minimum over all ranks; f: mem_fraction_static,
a fraction of P. Sources: ModelRunner.profile_max_num_token (<= 0.5.12, model_executor/model_runner.py and
model_runner_kv_cache_mixin.py), _profile_available_bytes (later; mem_cache/kv_cache_configurator.py since 0.5.16).
"""

import math
from collections.abc import Callable
from dataclasses import field, replace

from tui.frozen import frozen
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.slots import request_slots, request_table_bytes
from tui.sglang.speculation import draft_tokens as verify_tokens
from tui.sglang.speculation import has_draft_model, is_eagle_family, speculative_params
from tui.sglang.statepool import GIB, StatePool, state_pool
from tui.sglang.versions import Version, draft_counted_before_pool, inflates_tokens

_INFLATION_BUFFER = 100
_STEPS = 1000  # a fraction has 3 digits


@frozen
class PoolInputs:
    """Everything the pool's size depends on, on the tightest rank.

    `free_before_gib`: P. `available_gib`: A. `cell_bytes`: per token, draft share included (`kvcell.cell_size`).
    `context_len`: tokens one request may have, None if not known (then slots and the inflation are not either).
    `mm_reservation_gib`: `mm_reservation`. `state_bytes_per_request`: recurrent state on one rank, 0 if there is none.
    """

    version: Version
    free_before_gib: float
    available_gib: float
    fraction: float
    cell_bytes: float
    knobs: MemoryKnobs = field(default_factory=MemoryKnobs)
    architecture: str | None = None
    context_len: int | None = None
    page_size: int = 1
    mm_reservation_gib: float = 0.0
    state_bytes_per_request: int = 0


@frozen
class PoolBudget:
    """What the equation gives. GiB may be negative: by how much the weights exceed the budget.

    `rest_gib`: before recurrent state. `kv_budget_gib`: for KV tokens. `profiled_tokens`: before inflation, cap and
    pages. `tokens`: the pool, 0 or less when the server refuses to start. `inflation_tokens` (<= 0.5.6) come out of
    the slack. `request_slots`, `request_table_gib`: None without a context length.
    """

    slack_gib: float
    rest_gib: float
    kv_budget_gib: float
    profiled_tokens: int
    tokens: int
    inflation_tokens: int = 0
    state: StatePool | None = None
    request_slots: int | None = None
    request_table_gib: float | None = None
    capped: bool = False
    fits: bool = False

    def kv_gib(self, cell_bytes: float) -> float:
        """GiB that `tokens` slots of `cell_bytes` take; 0 when nothing fits."""
        return max(0, self.tokens) * cell_bytes / GIB


def slack_gib(free_before_gib: float, fraction: float) -> float:
    """P (1 - f): what is left for graphs, activations, the request table and, before 0.5.14, the draft."""
    return free_before_gib * (1 - fraction)


def rest_gib(free_before_gib: float, available_gib: float, fraction: float, mm_reservation_gib: float = 0.0) -> float:
    """A - P (1 - f) - reservation, GiB; negative when weights exceed the static budget."""
    return available_gib - slack_gib(free_before_gib, fraction) - mm_reservation_gib


def floor_fraction(free_before_gib: float, available_gib: float, mm_reservation_gib: float = 0.0) -> float:
    """The fraction that leaves nothing for KV: 1 - A/P. Every usable one is above it. ValueError if P <= 0."""
    if free_before_gib <= 0:
        raise ValueError("The memory free before weights must be above 0 GiB.")
    return 1 - (available_gib - mm_reservation_gib) / free_before_gib


def ceil3(fraction: float) -> float:
    """Round a fraction up to 3 digits, as SGLang's own advice does; a value already at 3 digits stays."""
    return math.ceil(round(fraction * _STEPS, 9)) / _STEPS


def available_after_weights_gib(
    version: Version, free_before_gib: float, base_gib: float, draft_gib: float | None, algorithm: str | None
) -> float:
    """A out of P and weights on one rank: the draft's weights count from 0.5.14 on.

    FROZEN_KV_MTP in 0.5.14 still sizes the target's pool before its draft. Raises ValueError when the draft counts and
    its size is None, or when the version has no era.
    """
    counted = draft_counted_before_pool(version)
    if counted is None:
        raise ValueError(f"The memory rules of SGLang {version} are not known.")
    late = algorithm == "FROZEN_KV_MTP" and version.release == (0, 5, 14)
    if not counted or late or not has_draft_model(algorithm):
        return free_before_gib - base_gib
    if draft_gib is None:
        raise ValueError("From SGLang 0.5.14 on the draft's weights are in the budget: give their size.")
    return free_before_gib - base_gib - draft_gib


def mm_reservation(
    version: Version,
    *,
    multimodal: bool,
    feature_transport: str | None = None,
    vlm_cache_mib: float = 100,
    feature_cache_mib: float = 1024,
) -> float:
    """GiB that multimodal models keep out of the KV budget from 0.5.18 on (mm_runtime_reservation_gb).

    `vlm_cache_mib`: SGLANG_VLM_CACHE_SIZE_MB. `feature_cache_mib`: SGLANG_MM_FEATURE_CACHE_MB, only with the feature
    transports cuda_ipc and cuda_vmm.
    """
    if not multimodal or version.before(0, 5, 18):
        return 0.0
    transport = feature_cache_mib if feature_transport in ("cuda_ipc", "cuda_vmm") else 0
    return (vlm_cache_mib + transport) / 1024


def inflation(version: Version, slots: int, knobs: MemoryKnobs, architecture: str | None = None) -> int | None:
    """Tokens that EAGLE and STANDALONE add on top of the profiled pool up to 0.5.6, outside the budget.

    slots x steps x top-k + slots x draft tokens + 100 (ModelRunner.init_memory_pool). None when they are not known.
    """
    algorithm = knobs.speculative_algorithm
    if not inflates_tokens(version) or not (is_eagle_family(algorithm) or algorithm == "STANDALONE"):
        return 0
    params = speculative_params(version, knobs, architecture)
    if params is None:
        return None
    return slots * params.num_steps * params.eagle_topk + slots * params.num_draft_tokens + _INFLATION_BUFFER


def _inflated(inputs: PoolInputs, profiled: int, state: StatePool | None) -> int:
    """The inflation that applies, 0 where it cannot be told: then the estimate errs to fewer tokens."""
    if not inflates_tokens(inputs.version) or inputs.knobs.speculative_algorithm is None:
        return 0
    limit = state.request_limit if state else None
    # The slots of a speculative run are the user's or 48, so the context length does not matter.
    slots = request_slots(inputs.version, profiled, inputs.context_len or 1, inputs.knobs, state_limit=limit)
    return inflation(inputs.version, slots, inputs.knobs, inputs.architecture) or 0


def size_pool(inputs: PoolInputs) -> PoolBudget:
    """The pool that SGLang will size with these inputs. ValueError if P or the cell is not above 0."""
    if inputs.cell_bytes <= 0 or inputs.free_before_gib <= 0:
        raise ValueError("The memory free before weights and the bytes per KV token must be above 0.")
    rest = rest_gib(inputs.free_before_gib, inputs.available_gib, inputs.fraction, inputs.mm_reservation_gib)
    draft = verify_tokens(inputs.version, inputs.knobs, inputs.architecture)
    state = None
    if inputs.state_bytes_per_request:
        state = state_pool(inputs.version, rest, inputs.state_bytes_per_request, inputs.knobs, draft)
    for_kv = state.rest_gib if state else rest
    profiled = math.floor(int(for_kv * GIB) / inputs.cell_bytes)
    extra = _inflated(inputs, profiled, state)
    tokens = profiled + extra
    cap = inputs.knobs.max_total_tokens
    capped = cap is not None and cap < tokens
    tokens = (min(tokens, cap) if cap is not None else tokens) // inputs.page_size * inputs.page_size
    strict = inputs.version.at_least(0, 5, 14) and for_kv <= 0
    fits = tokens > 0 and not strict and (state is None or state.fits)
    slots = table = None
    if inputs.context_len is not None and fits:
        limit = state.request_limit if state else None
        # Up to 0.5.9 the estimate is made from the profile, later from the finished pool.
        basis = profiled if inputs.version.before(0, 5, 10) else tokens
        slots = request_slots(inputs.version, basis, inputs.context_len, inputs.knobs, state_limit=limit)
        table = request_table_bytes(slots, inputs.context_len, draft) / GIB
    return PoolBudget(
        slack_gib=slack_gib(inputs.free_before_gib, inputs.fraction),
        rest_gib=rest,
        kv_budget_gib=for_kv,
        profiled_tokens=profiled,
        tokens=tokens,
        inflation_tokens=extra,
        state=state,
        request_slots=slots,
        request_table_gib=table,
        capped=capped,
        fits=fits,
    )


def _smallest_fraction(inputs: PoolInputs, enough: Callable[[PoolBudget], bool]) -> float | None:
    """The smallest 3-digit fraction below 1 that is enough, by bisection: more fraction never gives fewer tokens.

    With recurrent state, whose slots come in whole numbers, it is enough but may be a step above the smallest.
    """
    low, high = 1, _STEPS - 1
    if not enough(size_pool(replace(inputs, fraction=high / _STEPS))):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough(size_pool(replace(inputs, fraction=middle / _STEPS))):
            high = middle
        else:
            low = middle + 1
    return low / _STEPS


def first_working_fraction(inputs: PoolInputs) -> float | None:
    """The smallest 3-digit fraction with which the server starts; None when none does. `inputs.fraction` is ignored."""
    return _smallest_fraction(inputs, lambda budget: budget.fits)


def fraction_for_tokens(inputs: PoolInputs, tokens: int) -> float | None:
    """The smallest 3-digit fraction that gives at least `tokens`; None when none does, as with a lower token cap."""
    return _smallest_fraction(inputs, lambda budget: budget.fits and budget.tokens >= tokens)
