"""What can be rehearsed: the story, and other things that go wrong."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from tui.frozen import frozen

_BASE, _EAGLE3 = "kimi-k2.5-base", "kimi-k2.5-eagle3"


@frozen
class Scenario:
    """One thing to rehearse.

    `profile` and `knobs`: the launch that shows it, as a profile's name and changes to its [knobs]. `foreign_gib`:
    what another program holds, by GPU index. `stall`: what stops stepping `stall_after_s` seconds after ready: "server"
    or "dp-rank" (the last DP rank). `acceptance`: scales how often draft tokens are accepted.
    """

    name: str
    caption: str
    profile: str = _BASE
    knobs: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 1
    output_tokens: tuple[int, int] = (1500, 3000)
    foreign_gib: Mapping[int, float] = field(default_factory=dict)
    stall: str | None = None
    stall_after_s: float = 12.0
    acceptance: float = 1.0


_ALL = (
    Scenario(
        name="story",
        caption="A baseline, smaller graphs, and EAGLE-3, which the automatic fraction refuses",
        profile=_EAGLE3,
    ),
    Scenario(
        name="capture-oom",
        caption="A fraction so high that the CUDA graphs find no memory",
        knobs={"mem-fraction-static": 0.985, "cuda-graph-max-bs": 512},
    ),
    Scenario(
        name="dead-dp-rank",
        caption="One data-parallel rank stops stepping; nothing in the log says so",
        knobs={"mem-fraction-static": 0.85, "dp-size": 2, "enable-dp-attention": True},
        concurrency=4,
        stall="dp-rank",
    ),
    Scenario(
        name="foreign",
        caption="Another process holds part of one GPU",
        foreign_gib={3: 12.0},
    ),
    Scenario(
        name="retract",
        caption="More requests than the KV cache holds: some are thrown back into the queue",
        knobs={"mem-fraction-static": 0.78},
        concurrency=16,
        output_tokens=(1500, 2500),
    ),
    Scenario(
        name="low-acceptance",
        caption="A draft that guesses badly: speculation costs more than it brings",
        profile=_EAGLE3,
        knobs={"mem-fraction-static": 0.85},
        acceptance=0.25,
    ),
    Scenario(
        name="hang",
        caption="The scheduler stops behind a port that still answers",
        knobs={"mem-fraction-static": 0.85},
        stall="server",
    ),
)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
