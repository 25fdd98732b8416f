"""Summaries of the runs of a state directory: made once, kept beside each run, and what a run is compared with."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.facts import Expectation, PastSpeeds, SpeedAt
from tui.files import StoreError, read_json, write_json
from tui.runs import benches
from tui.runs.learning import LOOK_BACK, identity, learned, load, newest
from tui.runs.store import Run, RunStore, load_run
from tui.runs.summarising import About, summarise
from tui.runs.summary import Summary, to_json
from tui.runs.timeline import facts_of
from tui.sglang.memknobs import model_path

__all__ = ["ensure", "expectation", "learned", "load", "make", "past_speeds", "write"]


def make(run: Run) -> Summary:
    """A new summary out of everything that the run's folder holds. Raises SpecdeckError."""
    before = _before(run)
    about = About(
        run=run.name,
        profile=run.profile,
        started_at=run.started_at,
        knobs=run.knobs,
        sglang_version=run.sglang_version,
        rehearsal=run.rehearsal,
        alive=run.exited is None and run.alive,
        previous=before.name if before else None,
        previous_knobs=before.knobs if before else None,
        benches=benches.load(run.path),
    )
    return summarise(facts_of(run), about)


def write(folder: Path) -> Summary | None:
    """Make the summary of a run folder and keep it there; None for a damaged folder. Raises SpecdeckError."""
    run = load_run(folder)
    if run.damaged is not None:
        return None
    summary = make(run)
    write_json(run.summary, to_json(summary))
    return summary


def ensure(run: Run) -> Summary | None:
    """The kept summary if it is final, else a new one; None when it cannot be made."""
    kept = load(run.path)
    if run.damaged is not None or (kept is not None and kept.final):
        return kept
    try:
        return write(run.path)
    except SpecdeckError:
        return kept


def expectation(store: RunStore, profile: str, at: float | None = None) -> Expectation | None:
    """How long the newest run of a profile that got ready took, by phase."""
    for summary in newest(store):
        if summary.profile == profile and summary.ready_s is not None and summary.phases_s:
            return Expectation(
                at=time.time() if at is None else at,
                run=summary.run,
                phases_s=summary.phases_s,
                total_s=summary.ready_s,
            )
    return None


def past_speeds(store: RunStore, run: Run, at: float | None = None) -> tuple[PastSpeeds, ...]:
    """What a run is to be compared with: the newest run of its model that decoded without speculation, and the pinned
    baseline of its model."""
    now = time.time() if at is None else at
    own, model = identity(run.knobs), model_path(run.knobs)
    plain = baseline = None
    for summary in newest(store):
        if summary.run == run.name or not summary.speeds or summary.rehearsal != run.rehearsal:
            continue
        if plain is None and not _speculates(summary.knobs) and identity(summary.knobs) == own:
            plain = summary
        if baseline is None and model_path(summary.knobs) == model and _pinned(store.folder / summary.run):
            baseline = summary
    return _past("plain", plain, now), _past("baseline", baseline, now)


def _past(role: str, summary: Summary | None, at: float) -> PastSpeeds:
    if summary is None:
        return PastSpeeds(at=at, role=role)
    speeds = tuple(SpeedAt(**asdict(row.speed)) for row in summary.speeds)
    return PastSpeeds(at=at, role=role, run=summary.run, speeds=speeds)


def _speculates(knobs: Mapping[str, Any]) -> bool:
    return knobs.get("speculative-algorithm") is not None


def _pinned(folder: Path) -> bool:
    try:
        return bool(read_json(folder / "notes.json").get("baseline", False))
    except (FileNotFoundError, NotADirectoryError, StoreError, AttributeError):
        return False


def _before(run: Run) -> Run | None:
    """The run before it of the same profile."""
    store = RunStore(run.path.parent.parent)
    try:
        names = store.names()
    except StoreError:
        return None
    older = names[names.index(run.name) + 1 :] if run.name in names else []
    for name in older[:LOOK_BACK]:
        found = store.load(name)
        if found.damaged is None and found.profile == run.profile:
            return found
    return None
