"""Drivers that die, cards that get lost, clocks that go back: the feed goes on."""

import time
from pathlib import Path

import pytest

from tui.facts import GpuReading, GpuSample
from tui.feed.live import LiveFeed
from tui.feed.place import RealPlace
from tui.feed.targets import of_log
from tui.runs.store import RunStore
from tui.snapshot import State


class Machine(RealPlace):
    """Two GPUs that answer as they are told. `away`: indexes of lost ones; `error`: the driver is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[int] = set()
        self.error: str | None = None
        self.raises = False

    def sample(self, now, pids, *, host):
        if self.error is not None:
            return GpuSample(at=now, source="nvml", error=self.error)
        readings = []
        for index in range(2):
            lost = index in self.away
            readings.append(
                GpuReading(index=index, uuid=f"GPU-{index}", name="NVIDIA H20", error="is lost")
                if lost
                else GpuReading(
                    index=index, uuid=f"GPU-{index}", name="NVIDIA H20", total_gib=95.6, used_gib=74.0, free_gib=21.6
                )
            )
        return GpuSample(at=now, source="nvml", gpus=tuple(readings))


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def feed(tmp_path: Path, machine: Machine, faults) -> LiveFeed:
    log = tmp_path / "server.log"
    log.write_text(faults.STARTED)
    return LiveFeed(machine, RunStore(tmp_path / "state"), of_log(log))


async def test_a_driver_that_dies_and_comes_back(feed: LiveFeed, machine: Machine, faults) -> None:
    async with faults.running(feed) as until:
        await until(lambda s: len(s.gpus) == 2 and bool(s.ranks))
        machine.error = "The driver does not answer."
        dead = await until(lambda s: s.gpu_error is not None)
        assert dead.ranks[0].base == 72.33  # what the log said still holds
        assert dead.gpus[0].segments["base"].gib == 72.33
        machine.error = None
        back = await until(lambda s: s.gpu_error is None)
        assert [bar.segments["free"].gib for bar in back.gpus] == pytest.approx([21.6, 21.6])


async def test_one_lost_gpu_leaves_the_other(feed: LiveFeed, machine: Machine, faults) -> None:
    async with faults.running(feed) as until:
        await until(lambda s: len(s.gpus) == 2)
        machine.away = {1}
        ill = await until(lambda s: s.gpus[1].error is not None)
        assert ill.gpus[0].error is None
        assert ill.gpus[0].segments["free"].gib == pytest.approx(21.6)
        assert ill.gpus[1].segments.get("free") is None or ill.gpus[1].segments["free"].gib is None
        machine.away = set()
        await until(lambda s: s.gpus[1].error is None)


async def test_a_clock_that_jumps_back(
    feed: LiveFeed, machine: Machine, faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour back: new samples and new lines are taken at once, and no age is negative or an hour."""
    real = time.time
    async with faults.running(feed) as until:
        await until(lambda s: len(s.gpus) == 2 and bool(s.ranks))
        monkeypatch.setattr(time, "time", lambda: real() - 3600)
        machine.away = {0}
        told = await until(lambda s: s.gpus[0].error is not None)
        assert told.at < real() - 3500
        assert told.ages.gpu_s is not None
        assert 0 <= told.ages.gpu_s < 60
        with (tmp_path / "server.log").open("a") as file:
            file.write(
                "[2026-11-29 12:41:01 TP0] KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB\n"
            )
        await until(lambda s: s.log_lines == 3)
        assert feed.snapshot.state in (State.STARTING, State.RUNNING)
