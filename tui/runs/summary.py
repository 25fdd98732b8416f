"""What came of a run, in one small file: `summary.json`. Lists, comparisons and forecasts read this, not the log."""

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any

from tui.frozen import frozen
from tui.runs.benches import BenchResult, from_json
from tui.runs.checks import is_number, is_time
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
_TEXTS = ("run", "profile", "outcome", "verdict_title")
_OPTIONAL_TEXTS = ("verdict", "model", "sglang_version", "algorithm", "previous")
_NUMBERS = (
    "fraction", "ready_s", "kv_tokens", "free_gib", "graph_batch", "overhead_gib", "activations_gib", "accept_len",
    "best_tok_s",
)  # fmt: skip
_TIMES = ("started_at", "ended_at")
_SIZES = ("phases_s", "memory_gib")
_MAPS = ("knobs", "changed", *_SIZES)


def to_json(summary: Summary) -> dict[str, Any]:
    """The object of summary.json."""
    return {"version": VERSION, **asdict(summary)}


def summary_from(data: Mapping[str, Any]) -> Summary:
    """The summary of a JSON object; keys that are not known are left out. Raises ValueError, KeyError or TypeError."""
    found = {name: data[name] for name in _NAMES if name in data}
    _check(found)
    found["speeds"] = tuple(_row(row) for row in data.get("speeds", ()))
    found["benches"] = tuple(result for row in data.get("benches", ()) if (result := from_json(row)) is not None)
    machine = dict(data.get("machine") or {})
    found["machine"] = Machine(**{**machine, "gpus": tuple(map(str, machine.get("gpus", ())))})
    if not (is_number(found["machine"].total_mib) and is_number(found["machine"].free_gib)):
        raise ValueError("the machine's memory is no number")
    found["changed"] = {name: (pair[0], pair[1]) for name, pair in dict(data.get("changed") or {}).items()}
    return Summary(**found)


def _check(found: Mapping[str, Any]) -> None:
    """Raises ValueError for values that cannot be true."""
    wrong = [name for name in _TEXTS if not isinstance(found.get(name, ""), str)]
    wrong += [name for name in _OPTIONAL_TEXTS if not isinstance(found.get(name), str | None)]
    wrong += [name for name in _NUMBERS if not is_number(found.get(name))]
    wrong += [name for name in _TIMES if not is_time(found.get(name))]
    wrong += [name for name in _MAPS if not isinstance(found.get(name, {}), dict)]
    wrong += [name for name in _SIZES if not all(map(is_number, found.get(name, {}).values()))] if not wrong else []
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be what it says")


def _row(data: Mapping[str, Any]) -> SpeedRow:
    speed, best = data["speed"], data.get("best_tok_s")
    if not all(map(is_number, (best, *speed.values()))) or None in (speed["batch"], speed["tok_s"]):
        raise ValueError("a speed is no number")
    return SpeedRow(speed=BatchSpeed(**speed), best_tok_s=best, source=str(data.get("source", "")))
