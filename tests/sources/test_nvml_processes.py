"""Who holds the memory of a GPU, as far as the driver tells."""

import os

import pytest
from nvml_driver import NO_PID, TWO, Driver, gpus

from tui.facts import GpuProcess
from tui.sources import nvml_read
from tui.sources.nvml import NvmlSource


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
