"""The real nvidia-ml-py against a stand-in driver library in C (tests/support/nvml_stub.c)."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from tui.facts import GpuProcess, GpuReading
from tui.sources import nvml_read
from tui.sources.nvml import IDENTITY_S, RETRY_S, NvmlSource
from tui.sources.nvml_words import sentence

STUB = Path(__file__).parent.parent / "support" / "nvml_stub.c"
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


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in driver library")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path, STUB], check=True)
    return path


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


def gpus(source: NvmlSource, at: float = NOW) -> tuple[GpuReading, ...]:
    sample = source.sample(at)
    assert sample.error is None
    return sample.gpus


# ------------------------------------------------------------------------------------------- readings


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


# ------------------------------------------------------------------------------------------ processes


def test_same_process_in_several_lists_counts_once(driver: Driver, source: NvmlSource) -> None:
    me = os.getpid()
    driver.write(
        TWO
        + f"proc 0 compute {me} 51200 -1\nproc 0 graphics {me} 51200 -1\nproc 0 mps {me} 40960 -1\n"
        + f"proc 0 compute {NO_PID} 46080 -1\nproc 0 graphics {NO_PID + 1} 2048 -1\n"
    )
    first = gpus(source)[0]
    assert [(process.pid, process.used_gib) for process in first.processes] == [
        (me, 50.0),
        (NO_PID, 45.0),
        (NO_PID + 1, 2.0),
    ]
    assert first.processes[0].name is not None
    assert first.processes[0].name.startswith(("python", "pytest"))
    assert first.processes[1].name is None
    assert first.processes_note is None


def test_memory_of_a_process_that_is_not_told_stays_unknown(driver: Driver, source: NvmlSource) -> None:
    driver.write(TWO + f"proc 0 compute {NO_PID} -1 -1\n")
    first = gpus(source)[0]
    assert first.processes == (GpuProcess(pid=NO_PID, used_gib=None),)
    assert first.processes_note is None


def test_known_number_wins_over_unknown(driver: Driver, source: NvmlSource) -> None:
    lines = f"proc 0 compute {NO_PID} -1 -1\nproc 0 graphics {NO_PID} 1024 -1\nproc 0 mps {NO_PID} -1 -1\n"
    driver.write(TWO + lines)
    assert gpus(source)[0].processes == (GpuProcess(pid=NO_PID, used_gib=1.0),)


def test_process_list_of_an_older_driver(driver: Driver, source: NvmlSource) -> None:
    driver.hidden |= {
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    }
    driver.write(TWO + f"proc 0 compute {NO_PID} 102400 -1\n")
    assert gpus(source)[0].processes == (GpuProcess(pid=NO_PID, used_gib=100.0),)


def test_no_process_list_at_all(driver: Driver, source: NvmlSource) -> None:
    driver.hidden |= {f"nvmlDeviceGetComputeRunningProcesses_v{version}" for version in (2, 3)}
    first = gpus(source)[0]
    assert (first.processes, first.processes_note) == ((), "not told by the driver")
    assert first.error is None


def test_no_permission_hides_processes_and_keeps_the_bar(driver: Driver, source: NvmlSource) -> None:
    driver.write(TWO + "fail procs 4\n")
    first = gpus(source)[0]
    assert first.used_gib == 100.0
    assert first.processes_note == "hidden (no permission)"


@pytest.mark.parametrize(
    ("mib", "note"), [(None, "hidden (container)"), (60000, "hidden (container)"), (90000, None), (102000, None)]
)
def test_processes_hidden_by_a_container(
    driver: Driver, source: NvmlSource, monkeypatch: pytest.MonkeyPatch, mib: int | None, note: str | None
) -> None:
    monkeypatch.setattr(nvml_read, "_in_container", lambda: True)
    driver.write(TWO + (f"proc 0 compute {NO_PID} {mib} -1\n" if mib else ""))
    first, second = gpus(source)
    assert first.processes_note == note
    assert second.processes_note is None  # 1 GiB without an owner is the driver's own


def test_wsl_is_told(driver: Driver, source: NvmlSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_read, "_under_wsl", lambda: True)
    driver.write(TWO + f"proc 0 compute {NO_PID} -1 -1\n")
    first, second = gpus(source)
    assert first.processes_note is not None
    assert "WSL" in first.processes_note
    assert second.processes_note is None


# ------------------------------------------------------------------------------------ unified and MIG


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


# --------------------------------------------------------------------------------------------- errors

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


# ------------------------------------------------------------------------------------- driver's comings


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


# ------------------------------------------------------------------------------------ a process of its own

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
