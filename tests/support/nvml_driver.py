"""A stand-in of the NVIDIA driver library (nvml_stub.c), and what the tests of the NVML source read from it."""

import ctypes
import os
from pathlib import Path
from typing import Any

from tui.facts import GpuReading
from tui.sources.nvml import NvmlSource

STUB = Path(__file__).with_name("nvml_stub.c")
NO_PID = 2**22  # above the largest pid of Linux: such a process has no name
NOW = 1_700_000_000.0

TWO = """\
gpu 0 name NVIDIA H200
gpu 0 uuid GPU-first
gpu 0 total 143771
gpu 0 reserved 512
gpu 0 used 102400
gpu 0 cc 9.0
gpu 0 util 77
gpu 0 power 412500
gpu 0 temp 61
gpu 1 name NVIDIA H200
gpu 1 uuid GPU-second
gpu 1 total 143771
gpu 1 used 1024
"""


class Driver:
    """The stand-in, loaded in this process. Symbols in `hidden` are missing, as in an older driver."""

    def __init__(self, library: Path, state: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._state = state
        self.hidden: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in self.hidden:
            raise AttributeError(name)
        return getattr(self._library, name)

    def write(self, text: str) -> None:
        """Replaces the state at once, as a reader may come at any moment."""
        new = self._state.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self._state)

    @property
    def users(self) -> int:
        return int(self._library.fakeInitialized())

    @property
    def starts(self) -> int:
        return int(self._library.fakeStarts())


def gpus(source: NvmlSource, at: float = NOW) -> tuple[GpuReading, ...]:
    sample = source.sample(at)
    assert sample.error is None
    return sample.gpus
