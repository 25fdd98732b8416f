"""The numbers of an earlier start out of its log, for `plan --from-log`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tui.commands.plan_inputs import LogNumbers, PlanError
from tui.facts import ServerArgs, VersionHint
from tui.sglang.grammar import LogGrammar
from tui.sglang.ledger import Ledger, RankLedger
from tui.sglang.memknobs import MemoryKnobs
from tui.sglang.versions import Version, era, parse_version

GIB = 1 << 30
_MOST_BYTES = 64 << 20  # a start is told in the first lines of a log
# Arguments that SGLang fills in itself, by the machine and by each other: the plan works them out anew.
_RESOLVED = frozenset(
    ("mem_fraction_static", "chunked_prefill_size", "cuda_graph_max_bs", "cuda_graph_bs", "max_running_requests",
     "max_prefill_tokens", "disable_cuda_graph", "page_size", "attention_backend", "swa_full_tokens_ratio",
     "mamba_full_memory_ratio", "max_mamba_cache_size")
)  # fmt: skip


def read_log_numbers(path: Path) -> LogNumbers:
    """P, weights, KV bytes per token, arguments and version of the last start in the log. Raises PlanError."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
        seen_at = os.stat(path).st_mtime
    except OSError as error:
        raise PlanError(f"--from-log: {path} cannot be read: {error.strerror}.") from None
    grammar, ledger = LogGrammar(), Ledger()
    args: Mapping[str, Any] | None = None
    least: Version | None = None
    most: Version | None = None
    for number, line in enumerate(text.splitlines(), 1):
        for fact in grammar.feed(number, line, seen_at):
            ledger.apply(fact)
            if isinstance(fact, ServerArgs):
                args = fact.args
            elif isinstance(fact, VersionHint):
                least = _narrower(least, fact.at_least, max)
                most = _narrower(most, fact.at_most, min)
    ranks = ledger.ranks()
    if not ranks:
        raise PlanError(f"--from-log: {path} holds no memory lines of a starting SGLang; give the whole log.")
    return LogNumbers(
        free_before=_extreme(ranks, "free_before", min),
        base=_extreme(ranks, "base", max),
        draft=_extreme(ranks, "draft", max),
        cell_bytes=_cell(ranks, "kv_base"),
        draft_cell_bytes=_cell(ranks, "kv_draft"),
        version=_version(least, most),
        knobs=None if args is None else _knobs(args),
    )


def _narrower(now: Version | None, text: str | None, choose: Callable[..., Version]) -> Version | None:
    found = parse_version(text)
    if found is None or now is None:
        return found or now
    return choose(found, now)


def _version(least: Version | None, most: Version | None) -> str | None:
    """The newest version that the log's form allows, when all that it allows count memory alike."""
    if least is None:
        return None
    newest = most or parse_version("0.5.23")
    return str(newest) if era(least) is not None and era(least) is era(newest) else None


def _extreme(ranks: tuple[RankLedger, ...], name: str, choose: Callable[..., float]) -> float | None:
    known = [value for rank in ranks if (value := getattr(rank, name)) is not None]
    return choose(known) if known else None


def _cell(ranks: tuple[RankLedger, ...], name: str) -> float | None:
    """Bytes per token: the pool's GiB, which have two decimals, over its tokens."""
    sizes = [getattr(rank, name) * GIB / rank.kv_tokens for rank in ranks if getattr(rank, name) and rank.kv_tokens]
    return max(sizes) if sizes else None


def _knobs(args: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(MemoryKnobs)} - _RESOLVED
    wanted = known | {"model_path", "device", "quantization", "ep_size"}
    found = {name: args[name] for name in args if name in wanted and args[name] not in (None, False)}
    return {name.replace("_", "-"): value for name, value in found.items()}
