import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tui.sources import host
from tui.sources.host import HostSource, occupied_bytes, ready_bytes

MIB = 1 << 20
ZONES = """Node 0, zone    DMA32
  pages free     700000
        managed  772917
  pagesets
    cpu: 0
              count:    1444
              high:     1444
    cpu: 1
              count:    88
              high:     1444
Node 0, zone   Normal
  pages free     4000000
      nr_free_cma  0
  pagesets
    cpu: 0
              count:    9819
              high:     10081
"""
# Touches memory of its own, then memory that it shares, and maps a file, when told to.
PROGRAM = """
import mmap, sys
held = []
for line in sys.stdin:
    what = line.strip()
    if what == "anon":
        held.append(b"x" * (200 << 20))
    elif what == "shared":
        area = mmap.mmap(-1, 100 << 20)
        area.write(b"x" * (100 << 20))
        held.append(area)
    else:
        file = open(what, "rb")
        area = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        held.append((area, sum(area[i] for i in range(0, len(area), 4096))))
    print("done", flush=True)
"""


class Child:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    def tell(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture
def child() -> Iterator[Child]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, text=True) as process:
        yield Child(process)
        process.kill()


def test_one_bar_with_the_machines_memory() -> None:
    sample = HostSource().sample(5.0)
    assert (sample.at, sample.source, sample.error) == (5.0, "host", None)
    (bar,) = sample.gpus
    assert (bar.kind, bar.index, bar.name) == ("host", 0, "host RAM")
    assert bar.total_gib == pytest.approx(psutil.virtual_memory().total / (1 << 30))
    assert bar.total_gib is not None
    assert bar.used_gib is not None
    assert bar.free_gib is not None
    assert bar.used_gib + bar.free_gib == pytest.approx(bar.total_gib)
    assert 0 < bar.used_gib < bar.total_gib
    (others,) = bar.processes
    assert (others.pid, others.used_gib) == (0, bar.used_gib)


def test_the_servers_processes_and_the_rest_make_up_the_used_part(child: Child) -> None:
    child.tell("anon")
    (bar,) = HostSource().sample(5.0, pids=[child.pid, os.getpid(), child.pid, 2**22 + 1]).gpus
    assert [process.pid for process in bar.processes] == [*sorted((child.pid, os.getpid())), 0]
    by_pid = {process.pid: process for process in bar.processes}
    mine = by_pid[child.pid]
    assert mine.used_gib is not None
    assert mine.used_gib > 200 / 1024
    assert mine.name is not None
    assert "python" in mine.name
    assert sum(process.used_gib or 0 for process in bar.processes) == pytest.approx(bar.used_gib, abs=1e-6)


def test_own_and_shared_memory_count_and_mapped_files_do_not(
    child: Child, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checkpoint = tmp_path_factory.mktemp("host") / "weights"
    checkpoint.write_bytes(b"w" * (64 * MIB))
    steps = [occupied_bytes(child.pid)]
    for what in ("anon", "shared", str(checkpoint)):
        child.tell(what)
        steps.append(occupied_bytes(child.pid))
    sizes = [step for step in steps if step is not None]
    grown = [(after - before) / MIB for before, after in pairwise(sizes)]
    assert grown == pytest.approx([200, 100, 0], abs=16)


def test_what_the_kernel_keeps_ready_for_its_cpus_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zones = tmp_path / "zoneinfo"
    zones.write_text(ZONES)
    assert ready_bytes(zones) == (1444 + 88 + 9819) * os.sysconf("SC_PAGE_SIZE")
    assert ready_bytes(tmp_path / "none") == 0
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(host, "ready_bytes", lambda: 64 * MIB)
    (bar,) = HostSource().sample(5.0).gpus
    assert bar.free_gib == pytest.approx((memory.available + 64 * MIB) / (1 << 30))


def test_no_process_and_zombie_hold_nothing() -> None:
    assert occupied_bytes(2**22 + 1) is None
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert occupied_bytes(process.pid) is None
    process.wait()


def test_memory_that_cannot_be_read_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no /proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", broken)
    sample = HostSource().sample(5.0)
    assert sample.gpus == ()
    assert sample.error == "the memory of this machine cannot be read: no /proc/meminfo"
