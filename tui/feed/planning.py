"""The forecast of a restart: the profile's model, this machine without its server, and what that server measured."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.errors import SpecdeckError
from tui.facts import GpuSample
from tui.feed.place import Place
from tui.forecast.amounts import learned, measured
from tui.forecast.machine import Gpu, Learned, Machine
from tui.forecast.model import ModelFacts
from tui.forecast.predict import forecast
from tui.forecast.result import Forecast
from tui.frozen import frozen
from tui.models.errors import CheckpointError
from tui.port import FlagInfo
from tui.runs.store import Run
from tui.server.commandline import command_line, local_path, merge_knobs
from tui.server.exporter import export_shell
from tui.server.ports import holder
from tui.server.preflight import Finding, Surroundings, findings, preflight
from tui.server.profiles import Profile
from tui.sglang.catalogue import Catalogue, builtin_catalogue, probed_catalogue
from tui.sglang.memknobs import ModelTraits, memory_knobs, model_path
from tui.sglang.speculation import has_draft_model
from tui.sglang.versions import Version, parse_version
from tui.snapshot import UNKNOWN, Amount, GpuBar, RankMemory, Snapshot
from tui.sources.checkpoints import read_model
from tui.sources.nvml_visible import visible_uuids
from tui.wording import count

# Knobs that decide how many bytes of the model one rank holds: with another value nothing measured holds any more.
SHAPE_KNOBS = (
    "model-path", "model", "tp-size", "tensor-parallel-size", "pp-size", "dp-size", "ep-size", "quantization", "dtype",
    "device", "enable-dp-attention",
)  # fmt: skip
DRAFT_KNOBS = ("speculative-draft-model-path", "speculative-algorithm")
KV_KNOBS = ("kv-cache-dtype", *DRAFT_KNOBS)


@frozen(kw_only=False)
class PlannedForecast:
    """A Forecast as the screen takes it: see `tui.port.Forecast`."""

    found: Forecast

    @property
    def bars(self) -> tuple[GpuBar, ...]:
        return tuple(gpu.bar for gpu in self.found.gpus)

    @property
    def verdict(self) -> str:
        suggestion = self.found.suggestion
        if suggestion is None or self.found.fits:
            return self.found.verdict.text
        words = ", ".join(f"{name} {value}" for name, value in suggestion.knobs.items())
        return f"{self.found.verdict.text} Try {words}: {count(suggestion.kv_tokens)} tokens."

    @property
    def fits(self) -> bool | None:
        return self.found.fits

    @property
    def kv_tokens(self) -> int | None:
        return self.found.kv_tokens

    @property
    def suggestion(self) -> Mapping[str, Any]:
        return {} if self.found.suggestion is None or self.found.fits else self.found.suggestion.knobs

    @property
    def fraction_formula(self) -> str:
        return self.found.fraction.formula if self.found.fraction.source == "auto" else ""


class Planner:
    """Forecasts for one place. Blocking: a checkpoint may be read, a driver asked."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def forecast(
        self, profile: Profile, changes: Mapping[str, Any], snapshot: Snapshot, past: Learned | None = None
    ) -> PlannedForecast | None:
        """What launching `profile` with `changes` would do, once the server of `snapshot` is gone."""
        knobs = merge_knobs(profile.knobs, changes)
        version = parse_version(snapshot.sglang_version or profile.sglang_version)
        rank = _tightest(snapshot.ranks) if _same_model(profile, snapshot) else None
        same = rank is not None and not _touched(changes, SHAPE_KNOBS)
        machine = self._machine(profile, knobs, snapshot, rank if same else None)
        try:
            past = past or self._place.learned(knobs)
            model = self._place.model(knobs) or local_model(profile, knobs, version)
            if rank is not None and same:
                model = _measured_model(model, rank, changes)
                past = _measured_costs(past, rank, changes)
            return PlannedForecast(forecast(version, machine, model, knobs, past))
        except ValueError:
            return None  # a value that is still being typed; the editor says what is wrong with it

    def flags(self, profile: Profile | None, version: str | None) -> tuple[FlagInfo, ...]:
        """The flags of the server's own SGLang where it was asked before, else the main ones of its version."""
        told = version or (profile.sglang_version if profile is not None else None)
        catalogue = _probed(profile) or builtin_catalogue(parse_version(told))
        return tuple(
            FlagInfo(
                name=flag.name,
                type=flag.type,
                choices=flag.choices,
                default=flag.default,
                help=flag.help,
                group=flag.group,
                many=flag.many,
                optional_value=flag.optional_value,
            )
            for flag in catalogue.flags
        )

    def preflight(
        self,
        profile: Profile,
        changes: Mapping[str, Any],
        log_folder: Path,
        *,
        replaced: Run | None = None,
    ) -> tuple[Finding, ...]:
        """What stands against launching `profile` with `changes`. `replaced`: a restart frees what that run holds.

        A rehearsal has no files of the model and no interpreter, so nothing is said of them there.
        """
        own_port = _keeps_port(replaced, changes)
        if self._place.rehearsal:
            return self._rehearsed(profile, changes, own_port)
        sample = self._place.sample(time.time(), (), host=False)
        gpus = sample.gpus if sample.gpus or sample.error is None else None
        own = _pids(replaced)
        return preflight(profile, changes, gpus=gpus, own_pids=own, log_folder=log_folder, own_port=own_port)

    def _rehearsed(self, profile: Profile, changes: Mapping[str, Any], own_port: bool) -> tuple[Finding, ...]:
        knobs = merge_knobs(profile.knobs, changes)
        version = parse_version(self._place.prepare(profile).sglang_version)
        try:
            command = command_line(profile, changes)
        except SpecdeckError as error:
            return findings(Surroundings(version=version, program_problem=str(error), knobs=knobs))
        held = None if own_port else holder(command.host, command.port)
        address = f"{command.host}:{command.port}"
        return findings(Surroundings(version=version, port_holder=held, address=address, knobs=knobs))

    @staticmethod
    def command(profile: Profile, changes: Mapping[str, Any]) -> str:
        """The shell command that a launch with `changes` means; secrets are variables in it."""
        return export_shell(profile, changes)

    def _machine(
        self, profile: Profile, knobs: Mapping[str, Any], snapshot: Snapshot, rank: RankMemory | None
    ) -> Machine:
        device = str(knobs.get("device") or "cuda")
        sample = self._place.sample(time.time(), (), host=device == "cpu")
        before = UNKNOWN
        if rank is not None and rank.free_before is not None:
            before = measured(rank.free_before, "'Load weight begin' of the run on the screen")
        return machine_of(sample, device, before, profile.env.get("CUDA_VISIBLE_DEVICES"), _own_gib(snapshot))


def machine_of(
    sample: GpuSample, device: str, before: Amount, visible: str | None, own_gib: Mapping[int, float] | None = None
) -> Machine:
    """A sample as the forecast's machine. `own_gib`: what the present server holds by GPU index and will give back."""
    own = own_gib or {}
    gpus = tuple(
        Gpu(
            index=reading.index,
            name=reading.name,
            uuid=reading.uuid,
            kind=reading.kind,
            total_mib=None if reading.total_gib is None else int(reading.total_gib * 1024),
            free_gib_now=None if reading.free_gib is None else reading.free_gib + own.get(reading.index, 0.0),
            foreign_gib=_foreign(reading, own) if device != "cpu" else None,
        )
        for reading in sample.gpus
    )
    shown = visible_uuids(visible, sample.gpus) if visible is not None and device != "cpu" else None
    return Machine(gpus=gpus, driver=sample.driver, free_before=before, device=device, visible=shown)


def local_model(profile: Profile, knobs: Mapping[str, Any], version: Version | None) -> ModelFacts:
    """The model of a checkpoint folder of this machine; only its path is known where it cannot be read, with a note."""
    path = model_path(knobs)
    bare = ModelFacts(traits=ModelTraits(model_path=path if isinstance(path, str) else ""))
    if version is None or not isinstance(path, str):
        return bare
    target = local_path(profile, path)
    if target is None:
        return replace(bare, notes=(f"{path} is no folder of this machine, so its weights were not looked at.",))
    try:
        draft_path = knobs.get("speculative-draft-model-path")
        draft = local_path(profile, draft_path) if isinstance(draft_path, str) else None
        wants = has_draft_model(memory_knobs(knobs).speculative_algorithm)
        drafts = wants and (draft_path is None or (draft is not None and draft.exists()))
        return read_model(version, target, draft, knobs, drafts=drafts)
    except (CheckpointError, ValueError) as error:
        return replace(bare, notes=(str(error),))


def _measured_model(model: ModelFacts, rank: RankMemory, changes: Mapping[str, Any]) -> ModelFacts:
    """What the run on the screen measured of the same model on the same ranks: measured beats computed."""
    why = "measured by the run on the screen"
    told: dict[str, Any] = {}
    if rank.base is not None:
        told["base"] = learned(rank.base, why)
    if rank.draft is not None and not _touched(changes, DRAFT_KNOBS):
        told["draft_gross"] = learned(rank.draft, why)
    if model.target is None and rank.kv_base and rank.kv_tokens and not _touched(changes, KV_KNOBS):
        told["cell_bytes"] = rank.kv_base * 2**30 / rank.kv_tokens
        if rank.kv_draft:
            told["draft_cell_bytes"] = rank.kv_draft * 2**30 / rank.kv_tokens
    return replace(model, **told)


def _measured_costs(past: Learned, rank: RankMemory, changes: Mapping[str, Any]) -> Learned:
    told: dict[str, Any] = {}
    if rank.base is not None:
        told["base_gib"] = rank.base
    if rank.draft is not None and not _touched(changes, DRAFT_KNOBS):
        told["draft_gib"] = rank.draft
    return replace(past, **told)


def _same_model(profile: Profile, snapshot: Snapshot) -> bool:
    """Whether the server on the screen loaded this profile's model; only then do its measurements speak for it."""
    path = model_path(profile.knobs)
    return path is not None and path in (
        snapshot.args.get("model_path"),
        *(knob.value for knob in snapshot.knobs if knob.name in ("model-path", "model")),
    )


def _pids(run: Run | None) -> frozenset[int]:
    return frozenset(process.pid for process in (*run.tree, run.server) if process is not None) if run else frozenset()


def _keeps_port(run: Run | None, changes: Mapping[str, Any]) -> bool:
    """Whether a restart with `changes` takes the port that the run still holds."""
    return run is not None and run.exited is None and changes.get("port", run.port) == run.port


def _touched(changes: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any(name in changes for name in names)


def _tightest(ranks: tuple[RankMemory, ...]) -> RankMemory | None:
    known = [rank for rank in ranks if rank.free_before is not None]
    return min(known, key=lambda rank: rank.free_before or 0.0) if known else None


def _own_gib(snapshot: Snapshot) -> dict[int, float]:
    """GiB that this server holds on each GPU now: everything but what is free and what belongs to others."""
    own: dict[int, float] = {}
    for bar in snapshot.gpus:
        parts = [bar.segments[name].gib for name in ("base", "draft", "graphs", "kv", "other") if name in bar.segments]
        if bar.rank is not None:
            own[bar.index] = sum(part for part in parts if part is not None)
    return own


def _foreign(reading: Any, own: Mapping[int, float]) -> float | None:
    sizes = [process.used_gib for process in reading.processes if process.used_gib is not None]
    return max(0.0, sum(sizes) - own.get(reading.index, 0.0)) if sizes else None


def _probed(profile: Profile | None) -> Catalogue | None:
    """The catalogue of the profile's interpreter, if it was probed before: nothing is started here."""
    from tui.sources.probe import ProbeError, cached, find_interpreter

    if profile is None:
        return None
    try:
        found = cached(find_interpreter(profile.command, cwd=profile.folder, env=dict(profile.env)))
        return probed_catalogue(found.answer) if found is not None else None
    except (ProbeError, SpecdeckError, ValueError):
        return None
