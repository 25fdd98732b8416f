"""GPUs that are not plain cards: memory shared with the host, and MIG instances."""

import types

import psutil
import pynvml
import pytest
from nvml_driver import NO_PID, NOW, TWO, Driver, gpus

from tui.facts import GpuProcess
from tui.sources.nvml import IDENTITY_S, NvmlSource
from tui.sources.nvml_words import sentence


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = types.SimpleNamespace(total=128 << 30, available=96 << 30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    "state",
    [
        "gpu 0 name NVIDIA Graphics Device\nfail mem1 3\nfail mem2 3\n",
        "gpu 0 name NVIDIA Graphics Device\ngpu 0 total 0\n",
        "gpu 0 name NVIDIA GB10\nfail mem1 3\nfail mem2 3\n",
        "gpu 0 name NVIDIA GB10\ngpu 0 total 999999\ngpu 0 used 5\n",  # success with numbers that mean nothing
        "gpu 0 name Jetson AGX Orin\ngpu 0 total 17\n",
        "gpu 0 name NVIDIA Thor\ngpu 0 total 17\n",
    ],
)
def test_unified_memory_is_the_hosts(driver: Driver, source: NvmlSource, state: str) -> None:
    driver.write(state + f"proc 0 compute {NO_PID} 2048 -1\n")
    (gpu,) = gpus(source)
    assert (gpu.kind, gpu.total_gib, gpu.used_gib, gpu.free_gib) == ("unified", 128.0, 32.0, 96.0)
    assert gpu.reserved_gib is None
    assert gpu.processes == (GpuProcess(pid=NO_PID, used_gib=2.0),)
    assert gpu.processes_note is None


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA GeForce GTX TITAN", "NVIDIA Authority"])
def test_cards_with_their_own_memory_are_not_unified(driver: Driver, source: NvmlSource, name: str) -> None:
    driver.write(f"gpu 0 name {name}\ngpu 0 total 97871\n")
    (gpu,) = gpus(source)
    assert (gpu.kind, gpu.total_gib) == ("gpu", 97871 / 1024)


MIG = (
    TWO
    + """\
gpu 0 migmode 1
mig 0 0 uuid MIG-a
mig 0 0 name NVIDIA H200 MIG 3g.71gb
mig 0 0 total 71424
mig 0 0 used 20480
mig 0 2 uuid MIG-c
mig 0 2 total 71424
mig 0 2 reserved 512
proc 100 compute 4194304 20300 0
"""
)


def test_mig_instances_stand_for_their_gpu(driver: Driver, source: NvmlSource) -> None:
    driver.write(MIG)
    first, third, second_gpu = gpus(source)
    assert (first.kind, first.index, first.uuid, first.name) == ("mig", 0, "MIG-a", "NVIDIA H200 MIG 3g.71gb")
    assert (first.total_gib, first.used_gib, first.compute_capability) == (71424 / 1024, 20.0, "9.0")
    assert first.processes == (GpuProcess(pid=NO_PID, used_gib=20300 / 1024),)
    assert first.util_percent is None  # not supported there
    assert (third.uuid, third.reserved_gib) == ("MIG-c", 0.5)
    assert (second_gpu.kind, second_gpu.index) == ("gpu", 1)


def test_mig_mode_without_instances_shows_the_gpu(driver: Driver, source: NvmlSource) -> None:
    driver.write(TWO + "gpu 0 migmode 1\n")
    assert [gpu.kind for gpu in gpus(source)] == ["gpu", "gpu"]


def test_new_mig_instances_are_found_in_time(driver: Driver, source: NvmlSource) -> None:
    assert len(gpus(source)) == 2
    driver.write(MIG)
    assert len(gpus(source, NOW + 1)) == 2  # identity is slow, so it is not asked at every tick
    assert len(gpus(source, NOW + IDENTITY_S)) == 3


@pytest.mark.parametrize("code", [3, 4, 15])
def test_one_mig_instance_without_memory(driver: Driver, source: NvmlSource, code: int) -> None:
    driver.write(MIG + f"gpu 100 fail mem1 {code}\ngpu 100 fail mem2 {code}\n")
    first, third, second_gpu = gpus(source)
    assert (first.uuid, first.kind, first.total_gib) == ("MIG-a", "mig", None)
    assert first.error == sentence(pynvml.NVMLError(code))
    assert (third.error, second_gpu.error) == (None, None)


def test_mig_instance_of_no_size_is_not_taken_for_unified(driver: Driver, source: NvmlSource) -> None:
    driver.write(MIG.replace("mig 0 0 total 71424", "mig 0 0 total 0"))
    first = gpus(source)[0]
    assert (first.kind, first.total_gib) == ("mig", None)
    assert first.error is not None
