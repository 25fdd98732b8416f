"""What forecasts learn from the summaries of earlier runs. Light: `plan` reads it without the fold of a session."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tui.files import StoreError, read_json
from tui.forecast.machine import Learned
from tui.runs.store import RunStore
from tui.runs.summary import Summary, summary_from
from tui.sglang.memknobs import memory_knobs, model_path

LOOK_BACK = 200  # runs


def load(folder: Path) -> Summary | None:
    """The summary that lies in a run folder; None when there is none or it cannot be read."""
    try:
        return summary_from(read_json(folder / "summary.json"))
    except (FileNotFoundError, NotADirectoryError, StoreError, ValueError, KeyError, TypeError, AttributeError):
        return None


def learned(
    store: RunStore, knobs: Mapping[str, Any], version: str | None, *, rehearsal: bool = False
) -> Learned | None:
    """What earlier runs of the same model, tp, quantisation and version measured; None when there are none.

    `knobs`: those of the launch to come. Context, graphs and activations are taken from runs that were ready. A
    rehearsal teaches only rehearsals.
    """
    wanted = identity(knobs)
    draft = knobs.get("speculative-draft-model-path")
    base = draft_gib = overhead = activations = None
    graphs: dict[tuple[int | None, str | None], float] = {}
    for summary in newest(store):
        if version is None or summary.sglang_version != version or summary.rehearsal != rehearsal:
            continue
        if identity(summary.knobs) != wanted:
            continue
        memory = summary.memory_gib
        base = base if base is not None else memory.get("base")
        if draft is not None and summary.knobs.get("speculative-draft-model-path") == draft:
            draft_gib = draft_gib if draft_gib is not None else memory.get("draft")
        if summary.ready_s is None:
            continue
        overhead = overhead if overhead is not None else summary.overhead_gib
        activations = _most(activations, summary.activations_gib)
        sizes = [gib for name in ("graphs_base", "graphs_draft") if (gib := memory.get(name)) is not None]
        if sizes and summary.graph_batch is not None:
            graphs.setdefault((summary.graph_batch, summary.algorithm), sum(sizes))
    if base is None and overhead is None:
        return None
    return Learned(
        base_gib=base, draft_gib=draft_gib, overhead_gib=overhead, activations_gib=activations, graphs_gib=graphs
    )


def newest(store: RunStore) -> Iterator[Summary]:
    """The kept summaries, newest first."""
    try:
        names = store.names()[:LOOK_BACK]
    except StoreError:
        return
    for name in names:
        found = load(store.folder / name)
        if found is not None:
            yield found


def identity(knobs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides the weights of a rank."""
    try:
        memory = memory_knobs(knobs)
        layout: tuple[Any, ...] = (memory.tp, memory.pp, memory.dp_attention, memory.dp_size)
    except ValueError:
        layout = (None,)
    told = [knobs.get(name) for name in ("quantization", "dtype", "ep-size", "load-format", "device")]
    return (model_path(knobs), *layout, *told)


def _most(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None
