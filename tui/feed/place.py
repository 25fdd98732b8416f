"""Where servers run: this machine, or the rehearsal. Everything above is the same for both."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tui.facts import GpuSample
from tui.files import store_error
from tui.rehearsal.gpus import RehearsalGpus
from tui.rehearsal.machine import ENVIRONMENT, Settings, rehearse, settings_from
from tui.runs.store import Run, RunStore
from tui.server.profiles import Profile, edit
from tui.sources.host import HostSource
from tui.sources.nvml import NvmlSource

# The forecast is imported when one is asked for: `status` and the first frame do not pay for it.
if TYPE_CHECKING:
    from tui.forecast.machine import Learned
    from tui.forecast.model import ModelFacts


class Place(Protocol):
    """A machine. `rehearsal` is shown on every screen of it."""

    rehearsal: bool

    def sample(self, now: float, pids: Iterable[int], *, host: bool) -> GpuSample:
        """The GPUs, or the host's memory for a `--device cpu` server whose processes are `pids`. Blocks."""
        ...

    def prepare(self, profile: Profile) -> Profile:
        """The profile as it is launched here."""
        ...

    def model(self, knobs: Mapping[str, Any]) -> "ModelFacts | None":
        """The model as this place knows it without a checkpoint; None: look at the checkpoint."""
        ...

    def learned(self, knobs: Mapping[str, Any]) -> "Learned":
        """What launches here cost beside the model."""
        ...


class RealPlace:
    """This machine: NVML for its GPUs, /proc for its memory. The driver library is loaded at the first sample."""

    rehearsal = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: NvmlSource | None = None

    def sample(self, now: float, pids: Iterable[int], *, host: bool) -> GpuSample:
        with self._lock:
            if host:
                return HostSource().sample(now, pids)
            if self._nvml is None:
                self._nvml = NvmlSource()
            return self._nvml.sample(now)

    def prepare(self, profile: Profile) -> Profile:
        return profile

    def model(self, knobs: Mapping[str, Any]) -> "ModelFacts | None":
        return None

    def learned(self, knobs: Mapping[str, Any]) -> "Learned":
        from tui.forecast.machine import NOTHING_LEARNED

        return NOTHING_LEARNED


class RehearsalPlace:
    """A simulated machine: the same keeper starts a program that speaks as SGLang does and needs no GPU."""

    rehearsal = True

    def __init__(self, settings: Settings, *, version: str | None = None) -> None:
        """`version`: the SGLang that is rehearsed; without it the profile's word counts, then the settings'."""
        self.settings = settings
        self._version = version
        state = Path(settings.state_file) if settings.state_file else Path("/nonexistent")
        self._gpus = RehearsalGpus(state, settings.machine, settings.plot.foreign_gib)

    def sample(self, now: float, pids: Iterable[int], *, host: bool) -> GpuSample:
        return self._gpus.sample(now)

    def prepare(self, profile: Profile) -> Profile:
        version = self._version or profile.sglang_version or self.settings.sglang_version
        settings = replace(self.settings, sglang_version=version)
        command, env = rehearse(profile.command, {}, settings)
        return replace(edit(profile, command=command, env=env), sglang_version=version)

    def model(self, knobs: Mapping[str, Any]) -> "ModelFacts | None":
        from tui.rehearsal.modelfacts import model_facts

        return model_facts(knobs)

    def learned(self, knobs: Mapping[str, Any]) -> "Learned":
        from tui.rehearsal.forecasting import rehearsal_learned

        return rehearsal_learned(knobs)


def rehearsal_place(store: RunStore, settings: Settings, version: str | None = None) -> RehearsalPlace:
    """The rehearsal of one state directory: its GPUs' state lies beside its runs, so every dashboard sees the same.

    Raises StoreError.
    """
    folder = store.root / "rehearsal"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise store_error(error, folder) from error
    return RehearsalPlace(replace(settings, state_file=str(folder / "gpus.json")), version=version)


def place_of(run: Run) -> Place:
    """Where a run's server lives: a rehearsed one tells its settings in its environment."""
    told = run.env.get(ENVIRONMENT)
    if not run.rehearsal or told is None:
        return RealPlace()
    settings = settings_from({ENVIRONMENT: told})
    return RehearsalPlace(settings, version=settings.sglang_version)
