"""Checkpoint folders for the forecast, read once. A model of a terabyte takes seconds: call it in a worker thread."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tui.forecast.checkpointfacts import model_facts
from tui.forecast.model import ModelFacts
from tui.models.checkpoint import Checkpoint, inspect_checkpoint
from tui.models.draft import Draft, inspect_draft
from tui.sglang.versions import Version

Stamp = tuple[tuple[str, int, int], ...]


def read_model(
    version: Version, target: Path, draft: Path | None, knobs: Mapping[str, Any], *, drafts: bool
) -> ModelFacts:
    """The numbers of the model in `target`, and with `drafts` of its draft (`draft` None: inside the target).

    Raises CheckpointError when a folder cannot be read and ValueError when the layout is impossible.
    """
    checkpoint = read_checkpoint(target)
    return model_facts(version, checkpoint, read_draft(target, draft) if drafts else None, knobs)


def read_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint, from memory while no file of the folder was touched. Raises CheckpointError."""
    return _checkpoint(str(folder), _stamp(folder))


def read_draft(target: Path, draft: Path | None) -> Draft:
    """The draft of a target, as `read_checkpoint`. Raises CheckpointError."""
    stamps = _stamp(target) + (_stamp(draft) if draft is not None else ())
    return _draft(str(target), None if draft is None else str(draft), stamps)


@lru_cache(maxsize=8)
def _checkpoint(folder: str, stamp: Stamp) -> Checkpoint:
    return inspect_checkpoint(folder)


@lru_cache(maxsize=8)
def _draft(target: str, draft: str | None, stamps: Stamp) -> Draft:
    return inspect_draft(draft, read_checkpoint(Path(target)))


def _stamp(folder: Path) -> Stamp:
    """Name, size and time of every file; empty when the folder cannot be listed, which its reader then says better."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found))
