"""The memory of one rank, attributed from the facts of one start in order; `tui.sglang.ledger` holds the ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tui.facts import (
    GraphBegin,
    GraphEnd,
    KvPool,
    LogFact,
    PoolEnd,
    PoolSummary,
    StatePool,
    SwaPool,
    WeightsBegin,
    WeightsEnd,
)
from tui.frozen import frozen
from tui.patterns import lazy

# Names that SGLang gives to draft models: LlamaForCausalLMEagle3, Eagle3DeepseekV2ForCausalLM,
# DeepseekV3ForCausalLMNextN, Qwen3NextForCausalLMMTP, MiMoMTP, DFlashDraftModel…
_DRAFT_CLASS = lazy(r"Eagle|NextN|MTP|Mtp|DFlash|DSpark|Draft|Medusa|Assistant")
_DRAFTLESS = frozenset((None, "", "NGRAM"))
_ROUNDING = 0.02  # GiB; every size is printed with two decimals
_NOTABLE = 0.05  # GiB


@frozen
class MemoryStep:
    """One event of the start with what was free after it. GiB."""

    line: int
    what: str
    avail: float | None
    used: float | None = None


@frozen
class RankMemory:
    """Where the memory of one rank went, GiB; None was not logged. `free`: the last value that the log says."""

    rank: str
    free_before: float | None = None
    base: float | None = None
    draft: float | None = None
    kv_base: float | None = None
    kv_draft: float | None = None
    state: float | None = None
    graphs_base: float | None = None
    graphs_draft: float | None = None
    other: float | None = None
    free: float | None = None
    kv_tokens: int | None = None
    notes: tuple[str, ...] = ()


@frozen
class RankLedger(RankMemory):
    """The same, with the models and the events that it was read from."""

    model_class: str | None = None
    draft_class: str | None = None
    steps: tuple[MemoryStep, ...] = ()


@frozen
class StartContext:
    """What the whole log says about a start.

    `draft_first`: draft weights are loaded before the target's pool is sized (SGLang >= 0.5.14).
    """

    args_known: bool = False
    algorithm: str | None = None
    model_path: str | None = None
    draft_path: str | None = None
    draft_first: bool | None = None

    @property
    def draftless(self) -> bool:
        """The arguments say that there is no draft model."""
        return self.args_known and self.algorithm in _DRAFTLESS


@dataclass(slots=True)
class _Pool:
    """The pools between two "Memory pool end" lines."""

    items: list[KvPool | SwaPool | StatePool] = field(default_factory=list)
    closed: bool = False
    after_draft: bool = False  # draft weights were loaded before it
    draft: bool | None = None  # None: it cannot be told

    @property
    def only_bounds(self) -> bool:
        kv = [item for item in self.items if isinstance(item, KvPool)]
        return bool(kv) and all(item.upper_bound for item in kv)

    def kv_gib(self) -> float | None:
        """KV bytes of the block; a sliding-window total stands for the two pools before it."""
        sizes: list[float | None] = []
        for item in self.items:
            if isinstance(item, SwaPool):
                sizes = [*sizes[:-2], item.gib]
            elif isinstance(item, KvPool) and not item.upper_bound:
                sizes.append(item.gib)
        return _total(sizes)

    def tokens(self) -> int | None:
        for item in self.items:
            if isinstance(item, SwaPool) and item.full_tokens is not None:
                return item.full_tokens
        kv = [item for item in self.items if isinstance(item, KvPool) and not item.upper_bound and item.label != "swa"]
        return kv[0].tokens if kv else None


def attribute(rank: str, events: Sequence[LogFact], context: StartContext) -> RankLedger:
    """The ledger of one rank from its start-up facts in order."""
    notes: list[str] = []
    events = _one_of_many(events, notes)
    base, drafts = _weights(events, context, notes)
    pools = _pools(events, {id(fact) for fact in drafts}, context)
    _attribute_pools(pools, base is not None, context)
    targets = [pool for pool in pools if pool.draft is False]
    draft_pools = [pool for pool in pools if pool.draft is True]
    graphs, graphs_complete = _graphs(events)
    base_used = _weights_used(base, events) if base else None
    draft_used = [_weights_used(fact, events) for fact in drafts]
    free_before = _free_before(base, base_used, events)
    free = next((avail for fact in reversed(events) if (avail := _avail(fact)) is not None), None)
    states = [item.gib for pool in pools for item in pool.items if isinstance(item, StatePool)]
    sums = {
        "base": base_used,
        "draft": _total(draft_used),
        "kv_base": _total([pool.kv_gib() for pool in targets if pool.items]),
        "kv_draft": _total([pool.kv_gib() for pool in draft_pools if pool.items]),
        "state": _total(states),
        "graphs_base": _total([gib for name, gib in graphs if not is_draft_graph(name)]),
        "graphs_draft": _total([gib for name, gib in graphs if is_draft_graph(name)]),
    }
    _note_graphs(graphs, notes)
    summary = next((fact for fact in reversed(events) if isinstance(fact, PoolSummary)), None)
    complete = graphs_complete and None not in draft_used and _pools_complete(pools, drafts, events, context)
    other = _other(free_before, free, sums, notes, draft=bool(drafts)) if complete else None
    return RankLedger(
        rank=rank,
        free_before=free_before,
        **sums,
        other=other,
        free=free,
        model_class=base.model_class if base else None,
        draft_class=drafts[-1].model_class if drafts else None,
        kv_tokens=summary.max_total_num_tokens if summary else targets[0].tokens() if targets else None,
        notes=tuple(notes),
        steps=tuple(_steps(events, base, pools)),
    )


def is_draft_graph(name: str) -> bool:
    """Whether a graph belongs to the draft, by SGLang's name of it."""
    return "draft" in name.lower()


def _weights(
    events: Sequence[LogFact], context: StartContext, notes: list[str]
) -> tuple[WeightsEnd | None, list[WeightsEnd]]:
    """The target's block and the draft's blocks (multi-layer EAGLE loads one per step)."""
    base: WeightsEnd | None = None
    drafts: list[WeightsEnd] = []
    for fact in events:
        if not isinstance(fact, WeightsEnd):
            continue
        if fact.model_class and _DRAFT_CLASS.search(fact.model_class) and (base is not None or not context.draftless):
            drafts.append(fact)
        elif base is None and not drafts:
            base = fact
        elif base is not None and not context.draftless:
            drafts.append(fact)
        else:
            notes.append(f"line {fact.line}: a further block of weights is not counted: the arguments name no draft")
    if base is not None and drafts:
        _note_same_checkpoint(base, drafts[0], context, notes)
    return base, drafts


def _note_same_checkpoint(base: WeightsEnd, draft: WeightsEnd, context: StartContext, notes: list[str]) -> None:
    """EAGLE3 without a draft path loads the target as its own draft: same class, same size."""
    if base.model_class != draft.model_class or base.used_gib is None or draft.used_gib is None:
        return
    if abs(base.used_gib - draft.used_gib) > _ROUNDING:
        return
    told_apart = context.draft_path is not None and context.draft_path != context.model_path
    if (base.used_gib >= _NOTABLE and not told_apart) or (context.args_known and not told_apart):
        notes.append("the draft has the class and size of the target: the target's checkpoint was loaded as the draft")


def _weights_used(end: WeightsEnd, events: Sequence[LogFact]) -> float | None:
    """What the line says, else the difference to the begin line before it."""
    if end.used_gib is not None:
        return end.used_gib
    begin: WeightsBegin | None = None
    for fact in events:
        if fact is end:
            break
        if isinstance(fact, WeightsBegin):
            begin = fact
        elif isinstance(fact, WeightsEnd):
            begin = None
    if begin is None or begin.avail_gib is None or end.avail_gib is None:
        return None
    return round(begin.avail_gib - end.avail_gib, 4)


def _free_before(base: WeightsEnd | None, base_used: float | None, events: Sequence[LogFact]) -> float | None:
    first = events[0] if events else None
    if isinstance(first, WeightsBegin):
        return first.avail_gib
    if base is None or first is not base or base.avail_gib is None or base_used is None:
        return None
    return round(base.avail_gib + base_used, 4)


def _pools(events: Sequence[LogFact], draft_ids: set[int], context: StartContext) -> list[_Pool]:
    pools: list[_Pool] = []
    current = _Pool()
    draft_seen = False
    for fact in events:
        if isinstance(fact, WeightsEnd):
            draft_seen = draft_seen or id(fact) in draft_ids
        elif isinstance(fact, KvPool | SwaPool | StatePool):
            current.items.append(fact)
            current.after_draft = draft_seen
        elif isinstance(fact, PoolEnd):
            current.closed, current.after_draft = True, draft_seen
            pools.append(current)
            current = _Pool()
    if current.items:
        pools.append(current)
    return [pool for pool in pools if not pool.only_bounds]


def _attribute_pools(pools: list[_Pool], base_seen: bool, context: StartContext) -> None:
    target_seen = False
    for index, pool in enumerate(pools):
        if any(isinstance(item, KvPool) and item.label == "draft" for item in pool.items):
            pool.draft = True
        elif context.draftless:
            pool.draft = False if not target_seen else None
        elif target_seen:
            pool.draft = True
        elif not pool.after_draft or context.draft_first:
            pool.draft = False
        elif context.draft_first is False:
            pool.draft = True
        elif base_seen or index + 1 < len(pools):
            pool.draft = False
        target_seen = target_seen or pool.draft is False


def _pools_complete(
    pools: list[_Pool], drafts: list[WeightsEnd], events: Sequence[LogFact], context: StartContext
) -> bool:
    """Whether nothing that was allocated so far is missing from the log, as far as the order of events tells."""
    if not pools or any(pool.draft is None or not pool.items or not pool.closed for pool in pools):
        return False
    if any(pool.kv_gib() is None and not _only_state(pool) for pool in pools):
        return False
    if all(pool.draft for pool in pools):
        return False
    if not drafts and any(pool.draft for pool in pools):
        return False
    wants_draft = context.args_known and not context.draftless
    served = any(isinstance(fact, PoolSummary) for fact in events)
    return not (wants_draft and served and not drafts)


def _only_state(pool: _Pool) -> bool:
    return all(isinstance(item, StatePool) for item in pool.items)


def _graphs(events: Sequence[LogFact]) -> tuple[list[tuple[str, float | None]], bool]:
    """(name, GiB) of each finished capture, and whether memory after an unfinished one is known."""
    graphs: list[tuple[str, float | None]] = []
    begun: list[GraphBegin] = []
    complete = True
    for index, fact in enumerate(events):
        if isinstance(fact, GraphBegin):
            begun.append(fact)
        elif isinstance(fact, GraphEnd):
            begin = next((b for b in reversed(begun) if b.name == fact.name), None)
            if begin is not None:
                begun.remove(begin)
            used = fact.used_gib
            if used is None and begin is not None and begin.avail_gib is not None and fact.avail_gib is not None:
                used = round(begin.avail_gib - fact.avail_gib, 4)
            graphs.append((fact.name, used))
            complete = complete and used is not None
        elif begun and _avail(fact) is not None and index:
            complete = False
    return graphs, complete


def _note_graphs(graphs: Iterable[tuple[str, float | None]], notes: list[str]) -> None:
    released = -sum(gib for _, gib in graphs if gib is not None and gib < -_NOTABLE)
    if released > 0:
        notes.append(f"weights overstated by about {released:.2f} GiB: memory was released during capture")


def _other(
    free_before: float | None, free: float | None, sums: dict[str, float | None], notes: list[str], draft: bool
) -> float | None:
    """What the named parts leave of the memory that is gone: request table, workspaces, allocator slack."""
    if free_before is None or free is None or sums["base"] is None:
        return None
    rest = round(free_before - free - sum(gib for gib in sums.values() if gib is not None), 4)
    if rest >= 0:
        return rest
    if rest >= -_ROUNDING * 2:
        return 0.0
    cause = "the draft shares tensors with the target" if draft else "another process released memory"
    notes.append(f"{-rest:.2f} GiB more are free than the parts leave: {cause}")
    return None


def _one_of_many(events: Sequence[LogFact], notes: list[str]) -> Sequence[LogFact]:
    """When several ranks write without a tag every line comes as often as there are ranks: keeps one of each."""
    writers = 0
    for fact in events:
        if not isinstance(fact, WeightsBegin):
            break
        writers += 1
    if writers < 2:
        return events
    notes.append(f"{writers} ranks write without a tag: the figures are those of whichever wrote first")
    seen: dict[object, int] = {}
    kept = []
    for fact in events:
        key = _kind(fact)
        seen[key] = seen.get(key, -1) + 1
        if seen[key] % writers == 0:
            kept.append(fact)
    return kept


def _kind(fact: LogFact) -> object:
    match fact:
        case WeightsEnd():
            return type(fact), fact.model_class
        case KvPool():
            return type(fact), fact.label, fact.tokens, fact.gib
        case GraphBegin() | GraphEnd():
            return type(fact), fact.name
        case PoolSummary():
            return type(fact), fact.line  # only tp 0 prints it
        case _:
            return type(fact)


def _steps(events: Sequence[LogFact], base: WeightsEnd | None, pools: list[_Pool]) -> Iterable[MemoryStep]:
    owners = {id(item): pool.draft for pool in pools for item in pool.items}
    names = {False: "target", True: "draft", None: "a"}
    owner: bool | None = None
    for fact in events:
        if isinstance(fact, KvPool | SwaPool | StatePool):
            owner = owners.get(id(fact))
        elif isinstance(fact, WeightsBegin):
            yield MemoryStep(line=fact.line, what="weights begin", avail=fact.avail_gib)
        elif isinstance(fact, WeightsEnd):
            whose = "target" if fact is base else "draft"
            yield MemoryStep(line=fact.line, what=f"{whose} weights", avail=fact.avail_gib, used=fact.used_gib)
        elif isinstance(fact, PoolEnd):
            yield MemoryStep(line=fact.line, what=f"{names[owner]} pool", avail=fact.avail_gib)
            owner = None
        elif isinstance(fact, GraphBegin):
            yield MemoryStep(line=fact.line, what=f"{fact.name} graph begins", avail=fact.avail_gib)
        elif isinstance(fact, GraphEnd):
            yield MemoryStep(line=fact.line, what=f"{fact.name} graph", avail=fact.avail_gib, used=fact.used_gib)
        elif isinstance(fact, PoolSummary) and fact.available_gpu_mem_gib is not None:
            yield MemoryStep(line=fact.line, what="ready to serve", avail=fact.available_gpu_mem_gib)


def _avail(fact: LogFact) -> float | None:
    if isinstance(fact, PoolSummary):
        return fact.available_gpu_mem_gib
    if isinstance(fact, WeightsBegin | WeightsEnd | PoolEnd | GraphBegin | GraphEnd):
        return fact.avail_gib
    return None


def _total(sizes: Sequence[float | None]) -> float | None:
    """The sum; None when there is nothing to add or a part is unknown."""
    known = [size for size in sizes if size is not None]
    return round(sum(known), 4) if known and len(known) == len(sizes) else None
