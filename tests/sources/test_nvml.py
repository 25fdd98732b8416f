"""What a GPU tells of itself, by the real nvidia-ml-py against a stand-in driver library in C."""

import pytest
from nvml_driver import NO_PID, NOW, TWO, Driver, gpus

from tui.facts import GpuReading
from tui.sources.nvml import NvmlSource


def test_everything_a_gpu_tells(source: NvmlSource) -> None:
    sample = source.sample(NOW)

    assert (sample.at, sample.source, sample.driver, sample.error) == (NOW, "nvml", "570.00.test", None)
    first, second = sample.gpus
    assert first == GpuReading(
        index=0,
        uuid="GPU-first",
        name="NVIDIA H200",
        total_gib=143771 / 1024,
        used_gib=100.0,
        free_gib=(143771 - 512) / 1024 - 100.0,
        reserved_gib=0.5,
        compute_capability="9.0",
        util_percent=77.0,
        power_w=412.5,
        temperature_c=61.0,
        processes=(),
        processes_note="100.0 GiB are held by no process that can be seen",
    )
    assert (second.index, second.uuid, second.used_gib, second.compute_capability) == (1, "GPU-second", 1.0, None)


def test_numbers_move_while_it_runs(driver: Driver, source: NvmlSource) -> None:
    assert gpus(source)[1].used_gib == 1.0
    driver.write(TWO.replace("gpu 1 used 1024", "gpu 1 used 90112"))
    assert gpus(source, NOW + 1)[1].used_gib == 88.0


def test_memory_without_version_2_folds_reserved_into_used(driver: Driver, source: NvmlSource) -> None:
    driver.hidden.add("nvmlDeviceGetMemoryInfo_v2")
    first = gpus(source)[0]
    assert (first.used_gib, first.reserved_gib, first.kind) == (100.5, None, "gpu")


@pytest.mark.parametrize("code", [3, 13, 25])
def test_memory_version_2_refused(driver: Driver, source: NvmlSource, code: int) -> None:
    driver.write(TWO + f"fail mem2 {code}\n")
    assert [gpu.used_gib for gpu in gpus(source)] == [100.5, 1.0]


SENSORS = ["util", "power", "temp", "cc", "migmode", "procs", "graphics", "mps", "name", "driver"]


@pytest.mark.parametrize("code", [2, 3, 4, 13, 999])
@pytest.mark.parametrize("sensor", SENSORS)
def test_every_sensor_is_optional(driver: Driver, source: NvmlSource, sensor: str, code: int) -> None:
    driver.write(TWO + f"fail {sensor} {code}\n")
    first, second = gpus(source)
    assert (first.used_gib, second.used_gib) == (100.0, 1.0)
    assert first.error is None
    told = {
        "util": first.util_percent,
        "power": first.power_w,
        "temp": first.temperature_c,
        "cc": first.compute_capability,
    }
    assert all((value is None) == (name == sensor) for name, value in told.items())


@pytest.mark.parametrize(
    "symbol",
    [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlSystemGetDriverVersion",
    ],
)
def test_missing_symbols_are_features_off(driver: Driver, source: NvmlSource, symbol: str) -> None:
    driver.write(TWO + "proc 0 compute 4194304 102300 -1\n")
    driver.hidden.add(symbol)
    first = gpus(source)[0]
    assert first.used_gib == 100.0
    assert [process.pid for process in first.processes] == [NO_PID]
