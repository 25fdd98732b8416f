"""The state of a sweep on disk, so that it goes on where it was, whatever ended it."""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tui.files import StoreError, read_json, store_error, write_json
from tui.runs.benches import BenchResult, from_json
from tui.runs.checks import is_number, to_time
from tui.runs.sweepplan import Case, SweepError

PENDING, RUNNING, DONE, FAILED, SKIPPED = "pending", "running", "done", "failed", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case and what came of it. `why`: the plan's sentence of a skipped one, the verdict's of a failed one.

    `since`: Unix time at which a running one was begun, by which a server that an interrupted sweep left is known.
    `plan` and `fits`: what the forecast said of one that is still to come; None: it cannot be told, or was not asked.
    """

    case: Case
    status: str = PENDING
    why: str = ""
    plan: str = ""
    fits: bool | None = None
    verdict: str | None = None
    run: str | None = None
    kv_tokens: int | None = None
    free_gib: float | None = None
    ready_s: float | None = None
    seconds: float = 0.0
    since: float | None = None
    algorithm: str | None = None
    fraction: float | None = None
    results: tuple[BenchResult, ...] = ()

    @property
    def speed(self) -> float | None:
        """Tokens per second by which trials are ranked: of the first workload."""
        return self.results[0].typical_tok_s if self.results else None

    @property
    def accept_len(self) -> float | None:
        """Of the first workload that tells it."""
        return next((result.accept_len for result in self.results if result.accept_len is not None), None)

    @property
    def reason(self) -> str:
        """Why it failed or was skipped; "" where nothing is told."""
        kind = f"{self.verdict}: " if self.verdict else ""
        return f"{kind}{self.why}" if self.why else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep. `asked`: what tells it from another one (cases, workloads); `spent_s`: without the time it lay still.

    `options`: how it is run (place, time limits), so that it goes on in the same way. `doing`: the step of the case
    that runs, in words. `at`: Unix time at which this was written. `saved`: where the best profile was put.
    """

    name: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()
    budget_s: float | None = None
    spent_s: float = 0.0
    finished: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    doing: str = ""
    at: float | None = None
    saved: str = ""

    @property
    def left(self) -> int:
        return sum(trial.status in (PENDING, RUNNING) for trial in self.trials)

    def with_trial(self, index: int, trial: Trial) -> "Sweep":
        return replace(self, trials=(*self.trials[:index], trial, *self.trials[index + 1 :]))


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """The fastest first; those without a measurement after them, in their order."""
    every = list(trials)
    fast = [trial for trial in every if trial.speed is not None]
    return [*sorted(fast, key=lambda trial: -(trial.speed or 0.0)), *(t for t in every if t.speed is None)]


class SweepStore:
    """The sweeps of one state directory, a file each."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "sweeps"

    def new(
        self,
        cases: Iterable[Case],
        asked: Mapping[str, Any],
        budget_s: float | None,
        options: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """A sweep with every case still to come. Raises StoreError."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise store_error(error, self.folder) from error
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
        name = stamp if not self._path(stamp).exists() else f"{stamp}+{os.getpid()}"
        sweep = Sweep(
            name=name,
            asked=asked,
            trials=tuple(Trial(case=case) for case in cases),
            budget_s=budget_s,
            options=options or {},
        )
        self.save(sweep)
        return sweep

    def save(self, sweep: Sweep) -> None:
        """Replace its file as a whole. Raises StoreError."""
        write_json(self._path(sweep.name), asdict(replace(sweep, at=time.time())))

    def cancel(self, name: str) -> None:
        """Ask the process that runs it to stop: it looks for this file. Raises StoreError."""
        write_json(self._cancel(name), {})

    def cancel_asked(self, name: str) -> bool:
        """Whether somebody asked that."""
        return self._cancel(name).exists()

    def forget_cancel(self, name: str) -> None:
        """It was done, or is out of date."""
        with contextlib.suppress(OSError):
            self._cancel(name).unlink()

    def load(self, name: str) -> Sweep:
        """Raises SweepError."""
        try:
            return _sweep(read_json(self._path(name)))
        except FileNotFoundError as error:
            raise SweepError(f"There is no sweep {name}; `specdeck sweep --list` names them.") from error
        except (StoreError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise SweepError(f"The sweep {name} cannot be read: {error}.") from error

    def names(self) -> list[str]:
        """Newest first."""
        return sorted((path.stem for path in self.folder.glob("[0-9]*.json")), reverse=True)

    def unfinished(self, asked: Mapping[str, Any] | None = None) -> Sweep | None:
        """The newest that is not finished; with `asked` the newest that asked the same."""
        for name in self.names():
            try:
                sweep = self.load(name)
            except SweepError:
                continue
            if not sweep.finished and (asked is None or sweep.asked == asked):
                return sweep
        return None

    def log(self, name: str) -> Path:
        """What a sweep in the background says."""
        return self.folder / f"{name}.log"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _cancel(self, name: str) -> Path:
        return self.folder / f".cancel-{name}"


_NUMBERS = ("kv_tokens", "free_gib", "ready_s", "seconds", "since", "fraction")


def _sweep(data: Mapping[str, Any]) -> Sweep:
    return Sweep(
        name=str(data["name"]),
        asked=dict(data["asked"]),
        trials=tuple(_trial(trial) for trial in data["trials"]),
        budget_s=None if data.get("budget_s") is None else to_time(data["budget_s"]),
        spent_s=to_time(data.get("spent_s", 0.0)),
        finished=bool(data.get("finished", False)),
        options=dict(data.get("options", {})),
        doing=str(data.get("doing", "")),
        at=None if data.get("at") is None else to_time(data["at"]),
        saved=str(data.get("saved", "")),
    )


def _trial(data: Mapping[str, Any]) -> Trial:
    case = Case(str(data["case"]["profile"]), dict(data["case"]["knobs"]))
    results = tuple(result for row in data["results"] if (result := from_json(row)) is not None)
    trial = Trial(**{**data, "case": case, "results": results})
    numbers = all(is_number(getattr(trial, name)) for name in _NUMBERS) and trial.seconds is not None
    if not numbers or not all(isinstance(text, str) for text in (trial.status, trial.why, trial.plan, trial.run or "")):
        raise ValueError("a case does not say what it should")
    return trial
