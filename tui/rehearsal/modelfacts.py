"""A rehearsed model as the forecast sees it. Apart from the catalogue: the rehearsal server starts without it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui.forecast.amounts import computed
from tui.forecast.model import ModelFacts
from tui.rehearsal.catalogue import draft, target
from tui.sglang.memknobs import memory_knobs, model_path
from tui.sglang.speculation import has_draft_model


def model_facts(knobs: Mapping[str, Any]) -> ModelFacts:
    """What a rehearsed model takes on each rank, for the forecast: the catalogue is exact about it."""
    memory = memory_knobs(knobs)
    model = target(str(model_path(knobs) or ""))
    ranks = (memory.tp_size or 1) * (memory.pp_size or 1)
    facts = ModelFacts(
        base=computed(model.per_rank_gib(ranks), "the rehearsal's catalogue"),
        target=model.geometry,
        traits=model.traits,
        context_len=model.context_len,
        quantization=model.quant,
    )
    if not has_draft_model(memory.speculative_algorithm):
        return facts
    head = draft(memory.speculative_draft_model_path, memory.speculative_algorithm, model)
    gib = computed(head.per_rank_gib(ranks), "the rehearsal's catalogue")
    return replace(facts, draft_gross=gib, draft=head.geometry)
