"""The model a server is to load, in numbers per rank."""

from tui.frozen import frozen
from tui.sglang.kvcell import KvGeometry
from tui.sglang.memknobs import ModelTraits
from tui.snapshot import UNKNOWN, Amount

NO_TRAITS = ModelTraits()


@frozen
class ModelFacts:
    """One model under one set of knobs. GiB per rank, of the fullest rank.

    `draft_gross`: what loading the draft takes; `draft_shared_gib` of it comes back when it aliases the target's
    embedding and head. `cell_bytes`: KV bytes per token of the target on one rank where they are given outright,
    `draft_cell_bytes` those of the draft.
    `context_len`: the model's own limit in tokens.
    """

    base: Amount = UNKNOWN
    draft_gross: Amount = UNKNOWN
    draft_shared_gib: float = 0.0
    target: KvGeometry | None = None
    draft: KvGeometry | None = None
    cell_bytes: float | None = None
    draft_cell_bytes: float | None = None
    traits: ModelTraits = NO_TRAITS
    context_len: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    quantization: str | None = None
    notes: tuple[str, ...] = ()
