"""The simulated GPUs: they agree with the log, and forget the dead."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tui.facts import GpuSample
from tui.rehearsal.gpus import FOREIGN_PID, RehearsalGpus
from tui.rehearsal.gpustate import Holder, read, start_ticks, write
from tui.rehearsal.machine import Machine
from tui.rehearsal.scenarios import SCENARIOS


def test_an_idle_machine(tmp_path: Path) -> None:
    sample = RehearsalGpus(tmp_path / "none.json").sample(5.0)
    assert isinstance(sample, GpuSample)
    assert (sample.at, sample.source, len(sample.gpus)) == (5.0, "rehearsal", 8)
    for gpu in sample.gpus:
        assert gpu.total_gib == 97887 / 1024
        assert gpu.processes == ()
        assert gpu.used_gib < 0.01
        assert gpu.used_gib + gpu.free_gib + gpu.reserved_gib == pytest.approx(gpu.total_gib)
    assert len({gpu.uuid for gpu in sample.gpus}) == 8


@pytest.mark.parametrize("rubbish", ["", "{", "[]", '{"processes": 3}', '{"processes": [{"pid": "x"}]}'])
def test_a_broken_state_file_is_an_idle_machine(tmp_path: Path, rubbish: str) -> None:
    (tmp_path / "gpus.json").write_text(rubbish)
    assert RehearsalGpus(tmp_path / "gpus.json").sample(1.0).gpus[0].processes == ()


def test_memory_agrees_with_the_log_and_is_released(start, eagle3) -> None:
    server = start("0.5.9", (*eagle3, "--cuda-graph-max-bs", "128", "--mem-fraction-static", "0.85"), concurrency=0)
    server.wait_ready()
    gpus = RehearsalGpus(server.state_file)
    now = time.time()
    sample = gpus.sample(now)
    for rank, gpu in zip(server.ledger(), sample.gpus, strict=True):
        assert gpu.free_gib == pytest.approx(rank.free, abs=0.02 if rank.rank == "TP0" else 0.2)
        (process,) = gpu.processes
        assert process.name == f"sglang::scheduler_{rank.rank}"
        named = sum(gib for gib in (rank.base, rank.draft, rank.kv_base, rank.kv_draft, rank.graphs_base) if gib)
        assert named + 0.9 < process.used_gib < named + 2.0
        assert gpu.used_gib == pytest.approx(process.used_gib, abs=0.01)
    assert len({process.pid for gpu in sample.gpus for process in gpu.processes}) == 8
    server.process.send_signal(signal.SIGKILL)
    server.wait_end()
    server.wait_for(lambda: not any(holder.alive for holder in read(server.state_file)), "end of the schedulers")
    seen_dead = gpus.sample(now + 1)
    assert seen_dead.gpus[0].processes == ()
    assert seen_dead.gpus[0].used_gib > 80
    assert gpus.sample(now + 2.5).gpus[0].used_gib < 0.01
    assert RehearsalGpus(server.state_file).sample(now + 60).gpus[0].used_gib < 0.01


def test_two_servers_share_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    other = subprocess.Popen(["sleep", "60"])
    try:
        for pid, gib in ((os.getpid(), 10.0), (other.pid, 20.0)):
            write(path, [Holder(pid, start_ticks(pid) or 0, "python", 100.0, {0: gib})], 100.0)
        assert RehearsalGpus(path).sample(100.5).gpus[0].used_gib == pytest.approx(30.0, abs=0.01)
        write(path, [Holder(os.getpid(), start_ticks(os.getpid()) or 0, "python", 101.0, {0: 1.0})], 101.0)
        assert RehearsalGpus(path).sample(101.5).gpus[0].used_gib == pytest.approx(21.0, abs=0.01)
    finally:
        other.kill()
        other.wait()
    assert start_ticks(other.pid) is None


def test_a_stranger_with_the_pid_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    write(path, [Holder(os.getpid(), ticks - 1, "python", 10.0, {0: 5.0})], 10.0)
    assert RehearsalGpus(path).sample(100.0).gpus[0].used_gib < 0.01


def test_another_program_is_shown_as_such(tmp_path: Path) -> None:
    gpus = RehearsalGpus(tmp_path / "none", Machine(gpus=4), SCENARIOS["foreign"].foreign_gib)
    sample = gpus.sample(1.0)
    assert [gpu.processes[0].pid if gpu.processes else None for gpu in sample.gpus] == [None, None, None, FOREIGN_PID]
    assert sample.gpus[3].used_gib == pytest.approx(12.0, abs=0.01)
