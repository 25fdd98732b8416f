"""The recording of a run, `facts.jsonl` or `facts.jsonl.gz`: reading it, and packing it when the run has ended.

Its first line is a header. Facts of the log are not in it, as `server.log` keeps them: a LogTail says how far the log
was read at that moment, and the reader puts the lines' facts there again (`tui.runs.timeline`). Where specdeck does not
keep the log itself, the log's facts are in the recording and the header says so.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.factlines import FactLineError, load_fact
from tui.facts import Exited, Fact, Launched, Signalled, StateChange
from tui.files import store_error
from tui.frozen import frozen
from tui.runs.deltas import Deltas
from tui.runs.store import Run

NAME = "facts.jsonl"
PACKED = "facts.jsonl.gz"
VERSION = 1
JOURNAL = (Launched, Signalled, StateChange, Exited)  # what the keeper writes; every dashboard hears it from the start
LOG_ENDS = "log-ends"  # `{"mark": "log-ends"}`: what was open in the log was ended here


class RecordingError(SpecdeckError):
    """A recording that cannot be read at all."""


@frozen(kw_only=False)
class LogEnds:
    """Not a fact: here the reader of the log gave up waiting for the end of a traceback."""


@frozen(kw_only=False)
class Recorded:
    """One line. `number` is 1-based; `entry` None: the line is broken, or of a newer specdeck."""

    number: int
    entry: Fact | LogEnds | None
    broken: bool = False


def header(log_kept: bool) -> dict[str, Any]:
    """The first line. `log_kept`: the log's facts are left out, for the log lies beside the recording."""
    return {"specdeck": "facts", "version": VERSION, "log": "beside" if log_kept else "inside"}


def path_of(folder: Path) -> Path | None:
    """Where the recording of a run folder is; None when there is none."""
    return next((folder / name for name in (PACKED, NAME) if (folder / name).exists()), None)


def recorded(run: Run) -> bool:
    """Whether there is anything to read again: a recording, or at least a log."""
    return path_of(run.path) is not None or run.log.is_file()


def log_is_beside(folder: Path) -> bool:
    """Whether the log's facts have to be read from `server.log`."""
    path = path_of(folder)
    for line in _lines(path) if path is not None else ():
        try:
            return bool(json.loads(line).get("log") != "inside")
        except (ValueError, AttributeError):
            break
    return True


def read(folder: Path) -> Iterator[Recorded]:
    """Every line after the header. A last line that was cut by a crash is left out. Raises RecordingError."""
    path = path_of(folder)
    if path is None:
        return
    deltas = Deltas()
    for number, line in enumerate(_lines(path), 1):
        if not line.endswith("\n") or not line.strip():
            continue
        try:
            data = json.loads(line)
            if "specdeck" in data:
                _check(data, path)
                continue
            yield Recorded(number, _entry(data, deltas))
        except (ValueError, TypeError, AttributeError, RecursionError):
            deltas.forget()
            yield Recorded(number, None, broken=True)


def pack(folder: Path) -> None:
    """Compress the recording of an ended run; it is there as a whole at every moment. Raises StoreError."""
    plain, packed = folder / NAME, folder / PACKED
    if not plain.exists():
        return
    temporary = folder / f".{PACKED}.{os.getpid()}.tmp"
    try:
        with (
            plain.open("rb") as source,
            open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as to,
        ):
            with gzip.GzipFile(fileobj=to, mode="wb", compresslevel=6, mtime=0) as target:
                while block := source.read(1 << 20):
                    target.write(block)
            to.flush()
            os.fsync(to.fileno())
        os.replace(temporary, packed)
        plain.unlink()
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise store_error(error, packed) from error


def _entry(data: dict[str, Any], deltas: Deltas) -> Fact | LogEnds | None:
    if data.get("mark") == LOG_ENDS:
        return LogEnds()
    try:
        return load_fact(json.dumps(deltas.decode(data)))
    except FactLineError as error:
        raise ValueError(str(error)) from error


def _check(data: dict[str, Any], path: Path) -> None:
    if data.get("version", 0) > VERSION:
        raise RecordingError(f"{path} was written by a newer specdeck: update this one to read it.")


def _lines(path: Path) -> Iterable[str]:
    """Lines with their ends; a packed file that was cut gives what it holds."""
    try:
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}.") from error
