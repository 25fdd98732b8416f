"""What `plan` is asked about: profile, options, a log and this machine become a machine, a model and knobs."""

import argparse
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.commands.knobwords import assignments
from tui.errors import SpecdeckError
from tui.feed.place import RealPlace
from tui.feed.planning import local_model, machine_of
from tui.forecast.amounts import measured
from tui.forecast.machine import NOTHING_LEARNED, Gpu, Learned, Machine
from tui.forecast.model import ModelFacts
from tui.frozen import frozen
from tui.patterns import lazy
from tui.server.profiles import Profile
from tui.sglang.memknobs import ModelTraits, model_path
from tui.sglang.versions import Version, parse_version
from tui.snapshot import UNKNOWN, Amount

_GPUS = lazy(r"(?:(\d{1,4})\s*[x×*])?\s*(\d+(?:\.\d+)?)\s*(MiB|GiB)", re.IGNORECASE)
_MOST_GPUS = 1024


class PlanError(SpecdeckError):
    """A question that makes no sense: which option, what to do."""


@frozen
class PlanInputs:
    """`notes`: what could not be read, in sentences."""

    title: str
    version: Version | None
    machine: Machine
    model: ModelFacts
    knobs: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@frozen
class LogNumbers:
    """What a log of an earlier start says, GiB per rank."""

    free_before: float | None = None
    base: float | None = None
    draft: float | None = None
    cell_bytes: float | None = None
    draft_cell_bytes: float | None = None
    version: str | None = None
    knobs: Mapping[str, Any] | None = None


def gather(options: argparse.Namespace) -> PlanInputs:
    """Everything the forecast takes. Raises SpecdeckError."""
    profile = None
    if options.profile is not None:
        from tui.server.profiles import find

        profile = find(options.profile)
    log = _read_log(options.from_log) if options.from_log else LogNumbers()
    if profile is None and not (options.from_log or options.base_gib or options.kv_bytes_per_token):
        raise PlanError("Name a profile, or give the numbers: --base-gib, --kv-bytes-per-token, --gpus or --from-log.")
    knobs = dict(profile.knobs if profile else log.knobs or {})
    for name, value in assignments(options.set).items():
        knobs.pop(name, None)
        if value is not None:
            knobs[name] = value
    version = _version(options.sglang_version, log.version, profile.sglang_version if profile else None)
    machine, machine_notes = _machine(options, log, profile, knobs)
    model = _model(options, log, profile, knobs, version)
    return PlanInputs(
        title=profile.name if profile else options.from_log or "a server of these numbers",
        version=version,
        machine=machine,
        model=model,
        knobs=knobs,
        notes=machine_notes,
    )


def past_runs(options: argparse.Namespace, inputs: PlanInputs) -> Learned:
    """What earlier launches on this machine measured; nothing where another machine, or no profile, is asked about."""
    from tui.runs.learning import learned
    from tui.runs.store import RunStore

    if options.profile is None or options.gpus or inputs.version is None:
        return NOTHING_LEARNED
    return learned(RunStore(), inputs.knobs, str(inputs.version)) or NOTHING_LEARNED


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """`8x97887MiB`, or a list as `4x80GiB,2x24GiB`. Raises PlanError."""
    found: list[Gpu] = []
    for part in text.split(","):
        match = _GPUS.fullmatch(part.strip())
        size = float(match[2]) * (1024 if match[3].lower() == "gib" else 1) if match else 0.0
        count = int(match[1] or 1) if match else 0
        if match is None or size <= 0 or not 1 <= count <= _MOST_GPUS - len(found):
            raise PlanError(f"--gpus: {text!r} is not of the form 8x97887MiB, with MiB or GiB.")
        found += [Gpu(index=len(found) + n, total_mib=size) for n in range(count)]
    return tuple(found)


def _version(asked: str | None, logged: str | None, profiled: str | None) -> Version | None:
    if asked is None:
        return parse_version(logged or profiled)
    version = parse_version(asked)
    if version is None:
        raise PlanError(f"--sglang-version: {asked!r} is not a version such as 0.5.9.")
    return version


def _size(options: argparse.Namespace, name: str) -> float | None:
    """An option's positive number. Raises PlanError."""
    value: float | None = getattr(options, name)
    if value is not None and not (math.isfinite(value) and value > 0):
        raise PlanError(f"--{name.replace('_', '-')} must be above 0, not {value:g}.")
    return value


def _machine(
    options: argparse.Namespace, log: LogNumbers, profile: Profile | None, knobs: Mapping[str, Any]
) -> tuple[Machine, tuple[str, ...]]:
    given = _size(options, "free_gib")
    before = UNKNOWN
    if given is not None:
        before = measured(given, "--free-gib")
    elif log.free_before is not None:
        before = measured(log.free_before, "the log's 'Load weight begin'")
    device = str(knobs.get("device") or "cuda")
    if options.gpus:
        return Machine(gpus=parse_gpus(options.gpus), free_before=before, device=device), ()
    environment = os.environ | dict(profile.env if profile else {})
    return _local(device, before, environment.get("CUDA_VISIBLE_DEVICES"))


def _local(device: str, before: Amount, visible: str | None) -> tuple[Machine, tuple[str, ...]]:
    """This machine's GPUs or, for a CPU server, its memory."""
    place = RealPlace()
    sample = place.sample(time.time(), (), host=device == "cpu")
    notes = () if sample.error is None else (f"The GPUs of this machine were not read: {sample.error}.",)
    return machine_of(sample, device, before, visible), notes


def _model(
    options: argparse.Namespace,
    log: LogNumbers,
    profile: Profile | None,
    knobs: Mapping[str, Any],
    version: Version | None,
) -> ModelFacts:
    """The checkpoint where it lies on this machine, and over it what was told."""
    model = _checkpoint(profile, knobs, version)
    base, draft = _size(options, "base_gib"), _size(options, "draft_gib")
    changes: dict[str, Any] = {}
    for field, asked, logged, name in (
        ("base", base, log.base, "--base-gib"),
        ("draft_gross", draft, log.draft, "--draft-gib"),
    ):
        if asked is not None:
            changes[field] = measured(asked, name)
        elif logged is not None:
            changes[field] = measured(logged, "the log's 'Load weight end'")
    cell = _size(options, "kv_bytes_per_token")
    if cell is not None:
        changes["cell_bytes"] = cell
    elif log.cell_bytes is not None and model.target is None:
        changes |= {"cell_bytes": log.cell_bytes, "draft_cell_bytes": log.draft_cell_bytes}
    if options.vision_layers is not None or options.vision_hidden is not None:
        traits = replace(
            model.traits,
            multimodal=True,
            has_vision_config=True,
            vision_layers=options.vision_layers,
            vision_hidden=options.vision_hidden,
        )
        changes["traits"] = traits
    if model.target is None and "base" in changes and "cell_bytes" in changes:
        changes["notes"] = ()  # everything that a checkpoint would tell was told
    return replace(model, **changes)


def _checkpoint(profile: Profile | None, knobs: Mapping[str, Any], version: Version | None) -> ModelFacts:
    if profile is None:
        path = model_path(knobs)
        return ModelFacts(traits=ModelTraits(model_path=path if isinstance(path, str) else ""))
    return local_model(profile, knobs, version)


def _read_log(name: str) -> LogNumbers:
    from tui.commands.plan_log import read_log_numbers

    return read_log_numbers(Path(name).expanduser())
