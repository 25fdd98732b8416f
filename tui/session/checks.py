"""Two sources for one number: when they are more than 3 % apart the screen says so instead of choosing silently."""

from collections.abc import Iterable

from tui.facts import PoolSummary, ServerInfo
from tui.snapshot import RankMemory

TOLERANCE = 0.03
# SGLang's log has two decimals, so smaller differences say nothing.
LEAST_GIB = 0.02


def disagreements(
    ranks: tuple[RankMemory, ...], info: ServerInfo | None, summary: PoolSummary | None
) -> tuple[str, ...]:
    """Sentences. `internal_states[i].memory_usage` is the target on tp_rank 0 of DP rank i."""
    if info is None:
        return ()
    found: list[str] = []
    for number, memory in enumerate(info.memory):
        rank = _first_rank(ranks, number)
        if rank is None:
            continue
        found += _differ(f"{rank.rank} base weights", rank.base, memory.weight_gib)
        found += _differ(f"{rank.rank} KV cache of the target", rank.kv_base, memory.kvcache_gib)
    if summary is not None and info.max_total_num_tokens not in (None, summary.max_total_num_tokens):
        found.append(
            f"KV tokens: the log says {summary.max_total_num_tokens}, /server_info {info.max_total_num_tokens}"
        )
    return tuple(found)


def _first_rank(ranks: Iterable[RankMemory], dp_rank: int) -> RankMemory | None:
    mine = [rank for rank in ranks if f"DP{dp_rank}" in rank.rank.split()]
    if not mine and dp_rank == 0:
        mine = [rank for rank in ranks if "DP" not in rank.rank]
    return mine[0] if mine else None


def _differ(what: str, logged: float | None, answered: float | None) -> Iterable[str]:
    if logged is None or answered is None:
        return ()
    gap = abs(logged - answered)
    if gap <= max(LEAST_GIB, TOLERANCE * max(abs(logged), abs(answered))):
        return ()
    return (f"{what}: the log says {logged:.2f} GiB, /server_info {answered:.2f} GiB",)
