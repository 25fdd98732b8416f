"""NVML's error codes in words, and GPUs that fail, vanish and come back."""

from typing import Any

import pynvml
import pytest
from nvml_driver import NOW, TWO, Driver, gpus

from tui.sources.nvml import NvmlSource
from tui.sources.nvml_words import sentence

CODES = [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 25, 28, 999]


@pytest.mark.parametrize("code", CODES)
def test_each_error_at_init_is_one_sentence(driver: Driver, source: NvmlSource, code: int) -> None:
    driver.write(f"fail init {code}\n")
    sample = source.sample(NOW)
    assert sample.gpus == ()
    assert sample.error == sentence(pynvml.NVMLError(code))
    assert 10 < len(sample.error) < 160
    assert "\n" not in sample.error


@pytest.mark.parametrize("code", [code for code in CODES if code != 3])
def test_each_error_of_one_gpu_leaves_the_others(driver: Driver, source: NvmlSource, code: int) -> None:
    driver.write(TWO + f"gpu 0 fail mem1 {code}\ngpu 0 fail mem2 {code}\n")
    sample = source.sample(NOW)
    first, second = sample.gpus
    assert sample.error is None
    assert first.error == sentence(pynvml.NVMLError(code))
    assert (first.uuid, first.name, first.total_gib, first.free_gib) == ("GPU-first", "NVIDIA H200", None, None)
    assert (second.error, second.used_gib) == (None, 1.0)


def test_every_code_has_words_of_its_own() -> None:
    told = {sentence(pynvml.NVMLError(code)) for code in CODES if code not in (6, 28)}
    assert len(told) == len(CODES) - 2
    assert "error 12345" in sentence(pynvml.NVMLError(12345))


def test_plain_exception_of_a_mismatch_is_not_fatal(driver: Driver, source: NvmlSource) -> None:
    """nvidia-ml-py raises it for an unversioned call, and it is no NVMLError."""

    def unversioned(handle: Any, version: Any = None) -> Any:
        raise pynvml.NVMLLibraryMismatchError("Unversioned function called")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", unversioned)
        first = source.sample(NOW).gpus[0]
    assert first.error == sentence(pynvml.NVMLLibraryMismatchError("…"))
    assert "newer than this NVIDIA driver" in first.error


def test_lost_gpu_keeps_its_name_and_comes_back(driver: Driver, source: NvmlSource) -> None:
    assert gpus(source)[0].error is None
    driver.write(TWO + "gpu 0 fail all 15\n")
    for second in (1, 2, 3):
        lost, other = gpus(source, NOW + second)
        assert (lost.uuid, lost.name) == ("GPU-first", "NVIDIA H200")
        assert lost.error is not None
        assert "lost" in lost.error
        assert other.used_gib == 1.0
    driver.write(TWO)
    assert [gpu.error for gpu in gpus(source, NOW + 4)] == [None, None]


def test_gpu_that_comes_back_as_another_is_known_at_once(driver: Driver, source: NvmlSource) -> None:
    gpus(source)
    driver.write(TWO + "gpu 0 fail all 15\n")
    gpus(source, NOW + 1)
    driver.write(TWO.replace("GPU-first", "GPU-spare"))
    assert [gpu.uuid for gpu in gpus(source, NOW + 2)] == ["GPU-spare", "GPU-second"]


def test_gpu_that_was_lost_before_the_start_has_a_place(driver: Driver, source: NvmlSource) -> None:
    driver.write(TWO + "gpu 0 fail all 15\n")
    lost, other = gpus(source)
    assert (lost.index, lost.uuid) == (0, "unknown-0")
    assert lost.error is not None
    assert other.uuid == "GPU-second"


def test_gpu_that_vanishes_and_one_that_appears(driver: Driver, source: NvmlSource) -> None:
    assert len(gpus(source)) == 2
    driver.write(TWO[: TWO.index("gpu 1")])
    assert [gpu.uuid for gpu in gpus(source, NOW + 1)] == ["GPU-first"]
    driver.write(TWO)
    assert [gpu.uuid for gpu in gpus(source, NOW + 2)] == ["GPU-first", "GPU-second"]


def test_machine_without_gpus_says_so(driver: Driver, source: NvmlSource) -> None:
    driver.write("")
    sample = source.sample(NOW)
    assert sample.gpus == ()
    assert sample.error is not None
    assert "no GPU" in sample.error
