"""One launch in numbers: everything the memory equation takes, with the interval of what is estimated."""

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any

from tui.forecast import costs
from tui.forecast.amounts import estimated, high, learned, low, total
from tui.forecast.costs import Costs
from tui.forecast.machine import Gpu, Learned, Machine
from tui.forecast.model import ModelFacts
from tui.frozen import frozen
from tui.sglang.budget import PoolBudget, PoolInputs, available_after_weights_gib, mm_reservation, size_pool
from tui.sglang.fraction import AutoFraction, automatic_fraction
from tui.sglang.kvcell import SWA_FULL_TOKENS_RATIO, CellSize, cell_size
from tui.sglang.memknobs import MemoryKnobs, memory_knobs
from tui.sglang.slots import request_table_bytes
from tui.sglang.speculation import draft_tokens, has_draft_model
from tui.sglang.versions import Version, draft_counted_before_pool
from tui.snapshot import UNKNOWN, Amount, Source

GIB = 1 << 30
# A draft of one layer beside sixty, when nobody knows the draft's layers.
DRAFT_KV_SHARE, DRAFT_KV_LEAST, DRAFT_KV_MOST = 0.02, 0.005, 0.1


class Outlook(IntEnum):
    """Which end of the estimates to take."""

    WORST = -1
    LIKELY = 0
    BEST = 1


# A host's memory moves between P and A: Linux gives freed pages back, other programs take some. In nineteen starts of
# SGLang 0.5.23 on an idle host of 24 GiB it was 0.00 to 0.32 GiB, mostly below this.
HOST_MOVES_GIB = 0.25


@frozen
class Situation:
    """A launch whose numbers are known well enough for the equation. GiB on the tightest rank."""

    version: Version
    machine: Machine
    raw_knobs: Mapping[str, Any]
    knobs: MemoryKnobs
    model: ModelFacts
    past: Learned
    ranks: int
    gpu_mem_mib: float | None
    free_before: Amount
    base: Amount
    cost: Costs
    cell: CellSize | None
    fraction: AutoFraction
    context_len: int | None
    reservation_gib: float

    @property
    def draft_counted(self) -> bool:
        """Whether the draft is inside the fraction; before SGLang 0.5.14 it lives in the slack."""
        return bool(draft_counted_before_pool(self.version))

    @property
    def has_draft(self) -> bool:
        return has_draft_model(self.knobs.speculative_algorithm)

    def available_gib(self, outlook: Outlook) -> float | None:
        """A: free when the pool is sized. None while P or the weights are not known."""
        before, base, gross = self.free_before, self.base, self.cost.draft_gross
        if before.gib is None or base.gib is None or gross.gib is None:
            return None
        free = _end(before, outlook) or 0.0
        available = available_after_weights_gib(
            self.version,
            free,
            _end(base, Outlook(-outlook)) or 0.0,
            _end(gross, Outlook(-outlook)),
            self.knobs.speculative_algorithm,
        )
        if available is None or self.machine.device != "cpu":
            return available
        return min(free, available + outlook * HOST_MOVES_GIB)

    def inputs(self, fraction: float, outlook: Outlook = Outlook.LIKELY) -> PoolInputs | None:
        """The equation's inputs; None while one is not known or there is no memory at all."""
        available, before = self.available_gib(outlook), _end(self.free_before, outlook)
        if available is None or before is None or before <= 0 or self.cell is None or self.cell.total <= 0:
            return None
        return PoolInputs(
            version=self.version,
            free_before_gib=before,
            available_gib=available,
            fraction=fraction,
            cell_bytes=self.cell.total,
            knobs=self.knobs,
            architecture=self.model.traits.architecture,
            context_len=self.context_len,
            page_size=self.knobs.page_size or 1,
            mm_reservation_gib=self.reservation_gib,
            state_bytes_per_request=self.model.target.state_bytes_per_request if self.model.target else 0,
        )

    def pool(self, fraction: float, outlook: Outlook = Outlook.LIKELY) -> PoolBudget | None:
        inputs = self.inputs(fraction, outlook)
        return None if inputs is None else size_pool(inputs)

    def request_table_gib(self, pool: PoolBudget) -> float:
        """The table of a pool; without a context length it is left out."""
        if pool.request_slots is None or self.context_len is None:
            return 0.0
        extra = draft_tokens(self.version, self.knobs, self.model.traits.architecture)
        return request_table_bytes(pool.request_slots, self.context_len, extra) / GIB

    def draft_kv(self, pool: PoolBudget) -> Amount:
        """The draft's own KV pool: as many tokens as the target's."""
        if not self.has_draft or self.cell is None:
            return Amount(gib=0.0, source=self.base.source, why="no draft model")
        if self.cell.draft_pool is not None:
            gib = pool.kv_gib(self.cell.draft_pool)
            return Amount(gib=gib, source=self.cell_source, why=f"{self.cell.draft_pool:g} B per token")
        kv = pool.kv_gib(self.cell.target)
        why = "the draft's layers are not known"
        return estimated(kv * DRAFT_KV_SHARE, kv * DRAFT_KV_LEAST, kv * DRAFT_KV_MOST, why)

    @property
    def cell_source(self) -> Source:
        return Source.MEASURED if self.model.cell_bytes is not None else Source.COMPUTED

    def needs(self, pool: PoolBudget) -> Amount:
        """What has to fit into the slack: graphs, activations, request table and, before 0.5.14, the draft."""
        table = Amount(gib=self.request_table_gib(pool), source=self.cell_source)
        parts = [self.cost.graphs, self.cost.activations, table]
        if self.has_draft and not self.draft_counted:
            parts += [self.cost.draft_net, self.draft_kv(pool)]
        inflated = pool.inflation_tokens * (self.cell.target if self.cell else 0) / GIB
        return total(*parts, Amount(gib=inflated, source=self.cell_source))

    def allowance_gib(self, pool: PoolBudget) -> float:
        """What a suggestion leaves for `needs`: SGLang's own allowance for activations, the likely rest."""
        needs, work = self.needs(pool), self.cost.activations
        return (needs.gib or 0.0) - (work.gib or 0.0) + (high(work) or 0.0)


def make_situation(
    version: Version, machine: Machine, model: ModelFacts, raw: Mapping[str, Any], past: Learned
) -> Situation:
    """The numbers of a launch. Raises ValueError for a knob of the wrong type or an impossible layout."""
    knobs = costs.on_device(memory_knobs(raw), machine)
    copies = 1 if knobs.dp_attention else knobs.dp_size or 1
    ranks = max(1, knobs.tp * knobs.pp)
    mib = machine.smallest_mib
    gross, net = costs.draft(knobs, model.draft_gross, model.draft_shared_gib, past)
    traits = model.traits
    return Situation(
        version=version,
        machine=machine,
        raw_knobs=raw,
        knobs=knobs,
        model=model,
        past=past,
        ranks=ranks * copies,
        gpu_mem_mib=mib,
        free_before=tightest(machine, ranks, ranks * copies, past),
        base=_base(model, past),
        cost=Costs(
            graphs=costs.graphs(version, machine, mib, knobs, traits, past),
            activations=costs.activations(version, machine, mib, knobs, past),
            draft_gross=gross,
            draft_net=net,
        ),
        cell=_cell(version, model, knobs),
        fraction=automatic_fraction(version, mib, knobs, traits),
        context_len=knobs.context_length if knobs.context_length is not None else model.context_len,
        reservation_gib=mm_reservation(
            version, multimodal=traits.multimodal, feature_transport=knobs.mm_feature_transport
        ),
    )


def used_gpus(machine: Machine, ranks: int) -> tuple[Gpu, ...]:
    """The GPUs that get a rank: the first ones of those the server sees."""
    return machine.visible_gpus()[:ranks]


def tightest(machine: Machine, ranks: int, used: int, past: Learned) -> Amount:
    """P: the smallest over the GPUs that get a rank."""
    found = [costs.free_before(machine, gpu, ranks, past) for gpu in used_gpus(machine, used)]
    known = [amount for amount in found if amount.gib is not None]
    if not known:
        return costs.free_before(machine, None, ranks, past)
    return min(known, key=lambda amount: low(amount) or 0.0)


def _end(amount: Amount, outlook: Outlook) -> float | None:
    if outlook is Outlook.LIKELY:
        return amount.gib
    return low(amount) if outlook is Outlook.WORST else high(amount)


def _base(model: ModelFacts, past: Learned) -> Amount:
    if past.base_gib is not None and model.base.source.value != "measured":
        return learned(past.base_gib)
    return model.base if model.base.gib is not None else UNKNOWN


def _cell(version: Version, model: ModelFacts, knobs: MemoryKnobs) -> CellSize | None:
    """Bytes per token: given outright, or of the geometry."""
    algorithm = knobs.speculative_algorithm
    if model.cell_bytes is not None:
        pool = None if has_draft_model(algorithm) else 0.0
        counted = bool(draft_counted_before_pool(version)) and has_draft_model(algorithm)
        share = model.cell_bytes * DRAFT_KV_SHARE if counted else 0
        if model.draft_cell_bytes is not None and has_draft_model(algorithm):
            pool, share = model.draft_cell_bytes, model.draft_cell_bytes if counted else 0
        return CellSize(target=model.cell_bytes, budgeted_draft=share, draft_pool=pool)
    if model.target is None:
        return None
    ratio = knobs.swa_full_tokens_ratio
    return cell_size(
        version,
        model.target,
        algorithm=algorithm,
        draft=model.draft,
        kv_cache_dtype=knobs.kv_cache_dtype,
        attn_tp=knobs.attn_tp,
        pp_size=knobs.pp,
        swa_full_tokens_ratio=SWA_FULL_TOKENS_RATIO if ratio is None else ratio,
    )


def with_knobs(situation: Situation, changes: Mapping[str, Any]) -> Situation:
    """The same launch with other knobs."""
    raw = {**situation.raw_knobs, **changes}
    made = make_situation(situation.version, situation.machine, situation.model, raw, situation.past)
    return replace(made, free_before=situation.free_before)
