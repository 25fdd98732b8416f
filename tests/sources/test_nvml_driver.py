"""The driver library itself: missing, foreign, late, dying, reloaded."""

import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
from nvml_driver import NOW, TWO, Driver, gpus

from tui.sources.nvml import RETRY_S, NvmlSource


def test_driver_that_comes_later_is_found(driver: Driver, source: NvmlSource) -> None:
    driver.write("fail init 9\n" + TWO)
    assert "not loaded" in (source.sample(NOW).error or "")
    driver.write(TWO)
    assert "not loaded" in (source.sample(NOW + 1).error or "")  # a missing driver is not asked at every tick
    assert len(gpus(source, NOW + RETRY_S)) == 2


def test_driver_that_dies_and_comes_back(driver: Driver, source: NvmlSource) -> None:
    assert len(gpus(source)) == 2
    driver.write("fail count 18\nfail init 18\n" + TWO)
    assert "versions differ" in (source.sample(NOW + 10).error or "")
    assert "versions differ" in (source.sample(NOW + 11).error or "")
    assert driver.users == 0
    driver.write(TWO)
    assert len(gpus(source, NOW + 17)) == 2
    assert driver.users == 1


def test_library_shut_down_under_our_feet(driver: Driver, source: NvmlSource) -> None:
    assert len(gpus(source)) == 2
    pynvml.nvmlShutdown()
    assert source.sample(NOW + 10).error is not None
    assert len(gpus(source, NOW + 20)) == 2


def test_when_all_gpus_fail_they_stay_named_and_the_driver_is_opened_anew(driver: Driver, source: NvmlSource) -> None:
    gpus(source)
    driver.write(TWO + "gpu 0 fail all 999\ngpu 1 fail all 999\n")
    for second in (10, 11, 12, 16, 30):
        sample = source.sample(NOW + second)
        assert sample.error is None
        assert [(gpu.uuid, gpu.error is None) for gpu in sample.gpus] == [("GPU-first", False), ("GPU-second", False)]
        assert driver.users == 1
    driver.write(TWO)
    assert [gpu.error for gpu in gpus(source, NOW + 31)] == [None, None]


def test_driver_that_was_reloaded_answers_after_a_new_start(driver: Driver, source: NvmlSource) -> None:
    gpus(source)
    driver.write(f"stale {driver.starts + 1} 999\n" + TWO)
    failing = source.sample(NOW + 1)
    assert all(gpu.error for gpu in failing.gpus)
    assert [gpu.error for gpu in gpus(source, NOW + 1 + RETRY_S)] == [None, None]
    assert driver.users == 1


def test_clock_that_jumps_back_does_not_stop_the_retries(driver: Driver, source: NvmlSource) -> None:
    driver.write("fail init 9\n")
    assert source.sample(NOW).error is not None
    driver.write(TWO)
    assert len(gpus(source, NOW - 100_000)) == 2


def test_close_is_final_only_until_the_next_sample(driver: Driver, source: NvmlSource) -> None:
    source.close()
    gpus(source)
    assert driver.users == 1
    source.close()
    source.close()
    assert driver.users == 0
    assert len(gpus(source, NOW + 1)) == 2


def test_many_threads_open_it_once(driver: Driver, source: NvmlSource) -> None:
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(len(source.sample(NOW).gpus))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] * 6
    assert driver.users == 1


def test_another_package_in_the_place_of_nvidia_ml_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", types.ModuleType("pynvml"))
    sample = NvmlSource().sample(NOW)
    assert sample.error is not None
    assert "nvidia-ml-py" in sample.error
    assert "reinstall" in sample.error


def test_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "not installed" in (NvmlSource().sample(NOW).error or "")


PROGRAM = """
import json, sys
from tui.sources.nvml import NvmlSource
before = "pynvml" in sys.modules
source = NvmlSource()
sample = source.sample(1.0)
source.close()
print(json.dumps([before, len(sample.gpus), sample.error]))
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[Any]]:
    def go(**env: str) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        answer: list[Any] = json.loads(done.stdout)
        return answer

    return go


def test_found_by_the_loader_like_a_real_driver(run: Callable[..., list[Any]], library: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text(TWO)
    assert run(LD_LIBRARY_PATH=str(library.parent), FAKE_NVML_STATE=str(state)) == [False, 2, None]


def test_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", absent)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    sample = NvmlSource().sample(NOW)
    assert sample.error == "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"
