"""All GPUs of the machine by NVIDIA's library. Synchronous: call it in a worker thread, a driver may take its time."""

import importlib
import threading
import warnings
from typing import Any

from tui.facts import GpuReading, GpuSample
from tui.sources.nvml_read import Device, failures, identify, read
from tui.sources.nvml_words import NO_PYNVML, WRONG_PYNVML, sentence

RETRY_S = 5.0  # between two tries to reach a driver that is not there
IDENTITY_S = 60.0  # MIG instances come and go


class NvmlSource:
    """Reads every GPU; one that fails is told in words while the others go on.

    The driver is opened at the first sample, and again after it died and came back. Safe to call from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: Any = None  # the module, while NVML is initialised
        self._driver: str | None = None
        self._error = ""
        self._tried_at: float | None = None
        self._devices: dict[int, list[Device]] = {}
        self._last_known: dict[int, list[Device]] = {}
        self._identified_at = 0.0
        self._all_failed = False

    def sample(self, now: float) -> GpuSample:
        """All GPUs at `now` (Unix seconds). Never raises for what a driver does."""
        with self._lock:
            if self._all_failed and self._due(now):
                self._shut()  # a driver that was reloaded answers only after a new start
            if self._nvml is None and not self._open(now):
                return GpuSample(at=now, source="nvml", error=self._error)
            nvml = self._nvml
            try:
                count = int(nvml.nvmlDeviceGetCount())
            except failures(nvml) as error:
                self._error = sentence(error)
                self._shut()
                return GpuSample(at=now, source="nvml", error=self._error)
            self._forget_old_identities(count, now)
            gpus = tuple(reading for index in range(count) for reading in self._gpu(nvml, index))
            self._all_failed = bool(gpus) and all(gpu.error for gpu in gpus)
            return GpuSample(
                at=now,
                source="nvml",
                gpus=gpus,
                driver=self._driver,
                error=None if gpus else "the NVIDIA driver is there but has no GPU (CUDA devices hidden or removed)",
            )

    def close(self) -> None:
        """Ends the use of the driver. A later sample opens it again."""
        with self._lock:
            self._shut()
            self._tried_at = None

    def _gpu(self, nvml: Any, index: int) -> list[GpuReading]:
        try:
            if index not in self._devices:
                self._devices[index] = self._last_known[index] = identify(nvml, index)
        except failures(nvml) as error:
            known = self._last_known.get(index) or [Device(None, index, f"unknown-{index}", "NVIDIA GPU", "gpu")]
            return [_failed(device, error) for device in known]
        readings = []
        for device in self._devices[index]:
            try:
                readings.append(read(nvml, device))
            except failures(nvml) as error:
                self._devices.pop(index, None)  # it may come back as another handle
                readings.append(_failed(device, error))
        return readings

    def _forget_old_identities(self, count: int, now: float) -> None:
        if not 0 <= now - self._identified_at < IDENTITY_S or any(index >= count for index in self._devices):
            self._devices.clear()
            self._identified_at = now

    def _due(self, now: float) -> bool:
        return self._tried_at is None or not 0 <= now - self._tried_at < RETRY_S

    def _open(self, now: float) -> bool:
        if not self._due(now):
            return False
        self._tried_at = now
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # the deprecated package pynvml, if it is installed too
                pynvml: Any = importlib.import_module("pynvml")
        except ImportError:
            self._error = NO_PYNVML
            return False
        if not hasattr(pynvml, "nvmlInitWithFlags"):
            self._error = WRONG_PYNVML
            return False
        try:
            pynvml.nvmlInitWithFlags(0)
        except failures(pynvml) as error:
            self._error = sentence(error)
            return False
        self._nvml = pynvml
        try:
            self._driver = str(pynvml.nvmlSystemGetDriverVersion())
        except failures(pynvml):
            self._driver = None
        return True

    def _shut(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._all_failed = False
        self._devices.clear()
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except failures(nvml):
                return  # it was gone already


def _failed(device: Device, error: BaseException) -> GpuReading:
    return GpuReading(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        kind=device.kind,
        compute_capability=device.compute_capability,
        error=sentence(error),
    )
