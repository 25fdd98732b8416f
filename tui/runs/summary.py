"""What came of a run, in one small file: `summary.json`. Lists, comparisons and forecasts read this, not the log."""

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any

from tui.frozen import frozen
from tui.runs.benches import BenchResult, from_json
from tui.sglang.economics import BatchSpeed

VERSION = 1


@frozen
class SpeedRow:
    """Throughput at one batch size. `best_tok_s`: the fastest sample; `source`: "bench", "counters", "log", "loads"."""

    speed: BatchSpeed
    best_tok_s: float | None = None
    source: str = "log"


@frozen
class Machine:
    """Where it ran. `free_gib`: the least free memory of a GPU before the server took any."""

    gpus: tuple[str, ...] = ()
    total_mib: float | None = None
    driver: str | None = None
    free_gib: float | None = None


@frozen
class Summary:
    """One run. GiB are of the tightest rank at "ready" (or at the end of a failed start); None is not known.

    `outcome`: "starting", "serving", "stopped", "failed to start", "stopped before ready", "crashed" or "lost".
    `final`: nothing will be added any more. `changed`: knob -> (before, now) against `previous`, the run before of the
    same profile. `memory_gib`: by the fields of `tui.snapshot.RankMemory`. `graph_batch`: the largest decode graph.
    """

    run: str
    profile: str = ""
    final: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str = ""
    verdict: str | None = None
    verdict_title: str = ""
    rehearsal: bool = False
    model: str | None = None
    sglang_version: str | None = None
    algorithm: str | None = None
    fraction: float | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    previous: str | None = None
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    ready_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    kv_tokens: int | None = None
    free_gib: float | None = None
    memory_gib: Mapping[str, float | None] = field(default_factory=dict)
    graph_batch: int | None = None
    overhead_gib: float | None = None
    activations_gib: float | None = None
    accept_len: float | None = None
    best_tok_s: float | None = None
    speeds: tuple[SpeedRow, ...] = ()
    benches: tuple[BenchResult, ...] = ()
    machine: Machine = Machine()

    def speed(self, batch: int) -> BatchSpeed | None:
        """Typical throughput at a batch size."""
        return next((row.speed for row in self.speeds if row.speed.batch == batch), None)

    @property
    def by_batch(self) -> dict[int, BatchSpeed]:
        return {row.speed.batch: row.speed for row in self.speeds}


_NAMES = tuple(field.name for field in fields(Summary))


def to_json(summary: Summary) -> dict[str, Any]:
    """The object of summary.json."""
    return {"version": VERSION, **asdict(summary)}


def summary_from(data: Mapping[str, Any]) -> Summary:
    """The summary of a JSON object; keys that are not known are left out. Raises ValueError, KeyError or TypeError."""
    found = {name: data[name] for name in _NAMES if name in data}
    found["speeds"] = tuple(_row(row) for row in data.get("speeds", ()))
    found["benches"] = tuple(result for row in data.get("benches", ()) if (result := from_json(row)) is not None)
    machine = dict(data.get("machine") or {})
    found["machine"] = Machine(**{**machine, "gpus": tuple(machine.get("gpus", ()))})
    found["changed"] = {name: (pair[0], pair[1]) for name, pair in dict(data.get("changed") or {}).items()}
    return Summary(**found)


def _row(data: Mapping[str, Any]) -> SpeedRow:
    return SpeedRow(speed=BatchSpeed(**data["speed"]), best_tok_s=data.get("best_tok_s"), source=data.get("source", ""))
