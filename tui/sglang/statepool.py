"""The recurrent-state (mamba, GDN, KDA) pool of hybrid models, and the two pools of sliding-window models.

Sources: handle_max_mamba_cache (0.5.3 – 0.5.15, model_executor/model_runner_kv_cache_mixin.py), _handle_max_mamba_cache
(later, mem_cache/kv_cache_configurator.py), HybridSWAPoolConfigurator (model_executor/pool_configurator.py).
"""

from tui.frozen import frozen
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.speculation import running_requests_setting
from tui.sglang.versions import Version

GIB = 1 << 30
_FULL_MEMORY_RATIO = 0.9
_SLOTS_PER_REQUEST = 3


@frozen(kw_only=False)
class StatePool:
    """`slots`: states that are kept (K). `state_gib`: all of them with the intermediate ones of speculation.

    `rest_gib`: what is left for the full-attention tokens. `request_limit`: requests that K can serve.
    """

    slots: int
    state_gib: float
    rest_gib: float
    request_limit: int

    @property
    def fits(self) -> bool:
        return self.slots > 0 and self.request_limit > 0


def state_slots_per_request(version: Version, knobs: MemoryKnobs) -> int:
    """State slots that one request takes: 1 without radix cache, else 3, and 1 or 2 more with the extra buffer."""
    if knobs.disable_radix_cache:
        return 1
    if version.before(0, 5, 7) or knobs.mamba_scheduler_strategy != "extra_buffer":
        return _SLOTS_PER_REQUEST
    # Speculation ran without overlap until spec v2 became the default in 0.5.11.
    synchronous = bool(knobs.disable_overlap_schedule) or (
        knobs.speculative_algorithm is not None and version.before(0, 5, 11)
    )
    return _SLOTS_PER_REQUEST + (1 if synchronous else 2)


def state_pool(
    version: Version, rest_gib: float, per_request_bytes: int, knobs: MemoryKnobs, draft_tokens: int = 0
) -> StatePool:
    """Split `rest_gib` between recurrent state and full-attention KV. `per_request_bytes`: conv + ssm on this rank.

    `draft_tokens`: of one verify pass; 0 without speculation. With a ratio rho (mamba_full_memory_ratio, 0.9) the state
    gets rest x rho / (1 + rho). Speculation keeps draft_tokens intermediate states per running request: reserved first
    up to 0.5.13, solved jointly from 0.5.14 on. From 0.5.17 on each buffer has a padding slot more.
    """
    ratio = state_slots_per_request(version, knobs)
    dp = knobs.attn_dp
    running = running_requests_setting(knobs)
    per_worker = None if running is None else max(1, running // dp)
    share = _FULL_MEMORY_RATIO if knobs.mamba_full_memory_ratio is None else knobs.mamba_full_memory_ratio
    padding = 1 if version.at_least(0, 5, 17) else 0
    joint = version.at_least(0, 5, 14)
    intermediate = 0
    rest_bytes = rest_gib * GIB
    if draft_tokens and not joint:
        intermediate = per_request_bytes * (per_worker or 0) * draft_tokens
        rest_bytes -= intermediate
    if knobs.max_mamba_cache_size is not None:
        slots = knobs.max_mamba_cache_size // dp
    elif knobs.disable_radix_cache and per_worker is not None:
        slots = per_worker
    else:
        budget = rest_bytes * share / (1 + share)
        spread = draft_tokens / ratio if joint else 0
        fixed = per_request_bytes * padding * (1 + (draft_tokens if joint else 0))
        slots = int((budget - fixed) // (per_request_bytes * (1 + spread)))
    if draft_tokens and joint:
        requests = slots // ratio if per_worker is None else min(per_worker, slots // ratio)
        intermediate = per_request_bytes * (max(0, requests) + padding) * draft_tokens
        rest_bytes -= intermediate
    kept = (max(0, slots) + padding) * per_request_bytes
    return StatePool(
        slots=slots,
        state_gib=(kept + intermediate) / GIB,
        rest_gib=(rest_bytes - kept) / GIB,
        request_limit=slots // ratio,
    )


def swa_tokens(full_tokens: int, ratio: float, page_size: int = 1) -> int:
    """Tokens of the sliding-window pool beside `full_tokens`, aligned down to pages."""
    return int(full_tokens * ratio) // page_size * page_size
