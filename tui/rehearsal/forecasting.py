"""What is known of a rehearsal before its first run, for the forecast."""

from collections.abc import Mapping
from typing import Any

from tui.forecast.machine import Learned
from tui.rehearsal.launch import context_gib
from tui.sglang.memknobs import memory_knobs


def rehearsal_learned(knobs: Mapping[str, Any]) -> Learned:
    """Context and communication of so many ranks, to the byte. ValueError for a knob of the wrong type."""
    own = memory_knobs(knobs)
    return Learned(overhead_gib=context_gib(own.tp * own.pp))
