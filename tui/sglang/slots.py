"""Request slots and the request table, which SGLang allocates from the slack without a log line.

Sources: ModelRunner.init_memory_pool (<= 0.5.9), resolve_max_num_reqs (0.5.10 – 0.5.15
model_executor/model_runner_kv_cache_mixin.py, later mem_cache/kv_cache_configurator.py), ReqToTokenPool
(mem_cache/memory_pool.py).
"""

from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.speculation import running_requests_setting
from tui.sglang.versions import Version

_LEAST, _MOST = 2048, 4096
_SPARE_TOKENS = 4
_TOKEN_BYTES = 4  # int32


def estimated_slots(tokens: int, context_len: int) -> int:
    """SGLang's guess from the pool size, always 2048 to 4096 (all versions). `context_len` in tokens."""
    return max(min(int(tokens / context_len * 512), _MOST), _LEAST)


def request_slots(
    version: Version, tokens: int, context_len: int, knobs: MemoryKnobs, *, state_limit: int | None = None
) -> int:
    """Rows N of the request table on one rank.

    `tokens`: the pool before any inflation. `state_limit`: requests that the recurrent-state pool can hold.
    <= 0.5.9: the user's max_running_requests as given, or the estimate. 0.5.10 – 0.5.13: min(user / attention dp,
    estimate). From 0.5.14 on: min(user / attention dp, tokens // 2). Without a user value from 0.5.10 on: min(estimate,
    tokens // 2). With speculation an unset value is 48 in every version.
    """
    estimate = estimated_slots(tokens, context_len)
    wanted = running_requests_setting(knobs)
    if version.before(0, 5, 10):
        slots = estimate if wanted is None else wanted
    elif wanted is None:
        slots = min(estimate, tokens // 2)
    elif version.before(0, 5, 14):
        slots = min(wanted // knobs.attn_dp, estimate)
    else:
        slots = min(max(1, wanted // knobs.attn_dp), tokens // 2)
    if state_limit is not None:
        slots = min(slots, state_limit)
    return max(0, slots)


def request_table_bytes(slots: int, context_len: int, draft_tokens: int = 0) -> int:
    """Bytes of req_to_token: (N + 1) rows of context + 4 + draft tokens, int32.

    The row for padded batches is counted in every version, though early ones lack it: it is at most 4 MiB at 1 Mi
    tokens.
    """
    return (slots + 1) * (context_len + _SPARE_TOKENS + draft_tokens) * _TOKEN_BYTES
