"""What the sources ask: a server that does as it is told, and a stand-in of the NVIDIA driver."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest
from endpoint_answers import Connect
from nvml_driver import STUB, TWO, Driver
from scripted import Scripted, at_work

from tui.sources import nvml_read
from tui.sources.endpoints import EndpointSource
from tui.sources.nvml import NvmlSource


@pytest.fixture
def server() -> Iterator[Scripted]:
    with at_work(Scripted()) as scripted:
        yield scripted


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[EndpointSource] = []

    def go(url: str, **more: Any) -> EndpointSource:
        opened.append(EndpointSource(url, **{"timeout_s": 5.0, **more}))
        return opened[-1]

    yield go
    for source in opened:
        source.close()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in driver library")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path, STUB], check=True)
    return path


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    state = tmp_path / "state"
    monkeypatch.setenv("FAKE_NVML_STATE", str(state))
    stand_in = Driver(library, state)
    monkeypatch.setattr(pynvml, "nvmlLib", stand_in)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(nvml_read, "_in_container", lambda: False)
    monkeypatch.setattr(nvml_read, "_under_wsl", lambda: False)
    stand_in.write(TWO)
    yield stand_in
    assert stand_in.users == 0, "init and shutdown are not paired"


@pytest.fixture
def source(driver: Driver) -> Iterator[NvmlSource]:
    opened = NvmlSource()
    yield opened
    opened.close()
