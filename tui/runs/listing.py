"""The history as a table: rows, sorting, filtering, and what the operator adds to a run."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.files import StoreError, read_json, write_json
from tui.frozen import frozen
from tui.runs import summaries
from tui.runs.store import Run, RunStore, stamp_time
from tui.runs.summary import Summary

NOTES = "notes.json"
_KEEPER_ENDS_S = 3.0  # it outlives its server by a moment
SUMMARY_LIMIT_S = 2.0  # how long a listing may spend on summaries that are missing


class RunBusyError(SpecdeckError):
    """The run still lives."""


@frozen(kw_only=False)
class Notes:
    """What the operator said of a run. `baseline`: other runs are compared with it."""

    text: str = ""
    baseline: bool = False


@frozen(kw_only=False)
class Row:
    """One run. `summary` None: none was made yet; `damaged`: why nothing is known."""

    run: Run
    summary: Summary | None
    notes: Notes = Notes()

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def profile(self) -> str:
        return self.run.profile

    @property
    def started_at(self) -> float:
        """Unix time; of a damaged run what its name says."""
        return (self.summary.started_at if self.summary else None) or self.run.started_at or stamp_time(self.name)

    @property
    def outcome(self) -> str:
        """One or two words."""
        if self.run.damaged is not None:
            return "damaged"
        if self.summary is not None:
            return self.summary.outcome
        return "ended" if self.run.exited is not None else ""

    @property
    def change(self) -> str:
        """The knobs that changed, in a few words."""
        changed = self.summary.changed if self.summary else {}
        return ", ".join(f"{name} {shown(old)} -> {shown(new)}" for name, (old, new) in changed.items())


def rows(store: RunStore, limit: int | None = None, limit_s: float = SUMMARY_LIMIT_S) -> list[Row]:
    """Newest first. Missing summaries of ended runs are made, for `limit_s` seconds at most; the others come without.

    Raises StoreError when the folder cannot be read.
    """
    until = time.monotonic() + limit_s
    found = []
    for name in store.names()[:limit]:
        summary, run = summaries.load(store.folder / name), None
        if summary is None or not summary.final:
            run = store.load(name)
            if run.damaged is None and time.monotonic() < until and (run.exited is not None or not run.alive):
                summary = summaries.ensure(run)
        found.append(Row(run or _light(store, name, summary), summary, notes_of(store.folder / name)))
    return found


SORTS: Mapping[str, Callable[[Row], Any]] = {
    "time": lambda row: row.started_at,
    "profile": lambda row: row.profile,
    "outcome": lambda row: row.outcome,
    "ready": lambda row: -_or(row.summary.ready_s if row.summary else None, float("inf")),
    "tokens": lambda row: _or(row.summary.kv_tokens if row.summary else None, -1),
    "free": lambda row: _or(row.summary.free_gib if row.summary else None, -1e9),
    "speed": lambda row: _or(row.summary.best_tok_s if row.summary else None, -1),
    "accept": lambda row: _or(row.summary.accept_len if row.summary else None, -1),
}
_ASCENDING = ("profile", "outcome")


def sort(table: Sequence[Row], by: str, reverse: bool = False) -> list[Row]:
    """By a key of SORTS, the best or newest first, baselines before all others. Raises KeyError."""
    ordered = sorted(table, key=SORTS[by], reverse=(by not in _ASCENDING) != reverse)
    return sorted(ordered, key=lambda row: not row.notes.baseline)


def matching(table: Sequence[Row], words: str) -> list[Row]:
    """Rows in which every word is found: in name, profile, outcome, verdict, knobs or notes."""
    wanted = words.lower().split()
    return [row for row in table if all(word in _text(row) for word in wanted)]


def notes_of(folder: Path) -> Notes:
    try:
        data = read_json(folder / NOTES)
        return Notes(str(data.get("text", "")), bool(data.get("baseline", False)))
    except (FileNotFoundError, NotADirectoryError, StoreError):
        return Notes()


def annotate(run: Run, text: str) -> None:
    """Replace the note of a run. Raises StoreError."""
    write_json(run.path / NOTES, {"text": text, "baseline": notes_of(run.path).baseline})


def pin(run: Run, store: RunStore) -> None:
    """Make a run the baseline, instead of another one of the same model. Raises StoreError."""
    _set_baseline(run, True)
    mine = summaries.load(run.path)
    for name in store.names():
        other = store.folder / name
        if name == run.name or not notes_of(other).baseline:
            continue
        its = summaries.load(other)
        if mine is None or its is None or mine.model == its.model:
            _set_baseline(store.load(name), False)


def unpin(run: Run) -> None:
    """No baseline any more. Raises StoreError."""
    _set_baseline(run, False)


def baseline(store: RunStore, model: str | None = None) -> Summary | None:
    """The pinned run's summary, of that model when one is given."""
    for name in store.names():
        if notes_of(store.folder / name).baseline:
            found = summaries.load(store.folder / name)
            if found is not None and (model is None or found.model == model):
                return found
    return None


def delete(run: Run) -> None:
    """Remove a run for good, and what earlier removals that were cut short have left.

    Raises RunBusyError while it lives, StoreError when it cannot be removed.
    """
    until = time.monotonic() + _KEEPER_ENDS_S
    while run.alive and run.exited is not None and time.monotonic() < until:
        time.sleep(0.05)
    if run.alive:
        raise RunBusyError(f"{run.name} is still running: stop it first.")
    gone = run.path.with_name(f".gone-{run.name}")
    try:
        run.path.rename(gone)  # at once no run any more, however long removing takes
        if gone.is_symlink() or not gone.is_dir():
            gone.unlink()
        else:
            shutil.rmtree(gone)
    except FileNotFoundError:
        return  # somebody was faster
    except OSError as error:
        raise StoreError(f"Cannot remove {run.path}: {error.strerror or error}.") from error
    for cut_short in run.path.parent.glob(".gone-*"):
        shutil.rmtree(cut_short, ignore_errors=True)


def shown(value: Any) -> str:
    """A knob's value for a person."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _light(store: RunStore, name: str, summary: Summary | None) -> Run:
    """The run of a final summary, without reading its other files; a folder whose command is gone is damaged."""
    path = store.folder / name
    if summary is None or not (path / "command.json").exists():
        return store.load(name)
    return Run(path, summary.profile, started_at=summary.started_at, knobs=summary.knobs, rehearsal=summary.rehearsal)


def _set_baseline(run: Run, baseline: bool) -> None:
    write_json(run.path / NOTES, {"text": notes_of(run.path).text, "baseline": baseline})


def _text(row: Row) -> str:
    summary = row.summary
    knobs = " ".join(f"{name}={value}" for name, value in (summary.knobs if summary else row.run.knobs).items())
    verdict = f"{summary.verdict} {summary.verdict_title} {summary.algorithm}" if summary else ""
    return f"{row.name} {row.profile} {row.outcome} {verdict} {knobs} {row.notes.text}".lower()


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
