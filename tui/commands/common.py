"""What several commands share: where to run, which run is meant, and a Snapshot as JSON."""

import argparse
import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from tui.errors import SpecdeckError
from tui.feed.place import Place, RealPlace, RehearsalPlace, rehearsal_place
from tui.rehearsal.machine import Settings, check, parse_machine
from tui.runs.store import Run, RunStore
from tui.snapshot import Snapshot


def place_from(options: argparse.Namespace, store: RunStore) -> Place:
    """The place that the options name. Raises RehearsalError."""
    return rehearsal_from(options, store) if options.rehearsal else RealPlace()


def rehearsal_from(options: argparse.Namespace, store: RunStore) -> RehearsalPlace:
    """The rehearsal that the options describe. Raises RehearsalError."""
    settings = Settings(speed=options.speed, seed=options.seed, scenario=options.scenario)
    if options.machine:
        settings = dataclasses.replace(settings, machine=parse_machine(options.machine))
    return rehearsal_place(store, check(settings), options.sglang_version)


def run_named(store: RunStore, name: str | None) -> Run:
    """The run of that name; without one the living run, else the latest. Raises SpecdeckError."""
    if name is not None:
        return store.find(name)
    living = store.active()
    if len(living) > 1:
        names = ", ".join(run.name for run in living)
        raise SpecdeckError(f"Several servers run: name one of {names}.")
    found = living[0] if living else store.latest()
    if found is None:
        raise SpecdeckError(f"There is no run yet: `specdeck run PROFILE` starts one.{_unknown(store)}")
    return found


def _unknown(store: RunStore) -> str:
    """Servers that no run here knows: others started them, or their run folder is gone."""
    from tui.server.discover import find_servers, shown

    pids = [server.process.pid for server in shown(find_servers(store)) if server.run is None]
    if not pids:
        return ""
    pid = pids[0]
    return f" An SGLang server that no run knows is process {pid}: `specdeck attach --pid {pid} --adopt` takes it over."


def to_json(value: Any) -> Any:
    """Dataclasses, enums and tuples as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def snapshot_json(snapshot: Snapshot, *, points: int = 60) -> dict[str, Any]:
    """A Snapshot as JSON, with the last `points` of the plot."""
    found: dict[str, Any] = to_json(dataclasses.replace(snapshot, points=snapshot.points[-points:] if points else ()))
    return found
