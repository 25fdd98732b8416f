"""The simulated machine and its models as the forecast takes them, in place of NVML and checkpoint folders."""

from collections.abc import Mapping
from typing import Any

from tui.facts import GpuSample
from tui.forecast import Gpu, Learned, ModelFacts
from tui.forecast import Machine as ForecastMachine
from tui.forecast.amounts import computed
from tui.rehearsal import catalogue
from tui.rehearsal.gpus import gpu_uuid
from tui.rehearsal.launch import context_gib
from tui.rehearsal.machine import Machine
from tui.sglang.memknobs import memory_knobs
from tui.snapshot import UNKNOWN

_WHY = "the rehearsal's own model"


def rehearsal_model(knobs: Mapping[str, Any]) -> ModelFacts:
    """The model that a rehearsal server loads with these knobs; there is always one. ValueError for a wrong type."""
    own = memory_knobs(knobs)
    model = catalogue.target(str(knobs.get("model-path", "")))
    algorithm = own.speculative_algorithm
    draft = catalogue.draft(own.speculative_draft_model_path, algorithm, model) if algorithm else None
    return ModelFacts(
        base=computed(model.per_rank_gib(own.tp * own.pp), _WHY),
        draft_gross=computed(draft.per_rank_gib(own.tp), _WHY) if draft else UNKNOWN,
        target=model.geometry,
        draft=draft.geometry if draft else None,
        traits=model.traits,
        context_len=model.context_len,
        quantization=model.quant,
    )


def rehearsal_machine(machine: Machine, sample: GpuSample | None = None) -> ForecastMachine:
    """The simulated machine; with a sample what is free now counts, else it is taken as idle."""
    idle = machine.total_gib - machine.reserved_gib - machine.idle_gib
    free = {gpu.index: gpu.free_gib for gpu in sample.gpus} if sample else {}
    return ForecastMachine(
        gpus=tuple(
            Gpu(
                index=index,
                name=machine.name,
                uuid=gpu_uuid(index),
                total_mib=machine.mib,
                free_gib_now=free.get(index, idle),
            )
            for index in range(machine.gpus)
        ),
        driver="rehearsal",
    )


def rehearsal_learned(knobs: Mapping[str, Any]) -> Learned:
    """What is known of every rehearsal beforehand: context and communication of so many ranks."""
    own = memory_knobs(knobs)
    return Learned(overhead_gib=context_gib(own.tp * own.pp))
