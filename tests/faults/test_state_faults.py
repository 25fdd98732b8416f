"""What can happen to the state directory while it is used, and logs that are no files."""

import errno
import os
import pty
import select
import shutil
import subprocess
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tui.commands.doctor_case import examine
from tui.facts import GpuSample
from tui.feed.live import LiveFeed
from tui.feed.place import RehearsalPlace
from tui.feed.targets import of_log, of_run
from tui.rehearsal.machine import Settings
from tui.runs import recording
from tui.runs.recorder import Recorder
from tui.runs.store import Run, RunStore
from tui.snapshot import Snapshot

COMMAND = '{"argv": ["sglang"], "port": 30000, "rehearsal": true}'


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state")


@pytest.fixture
def run(store: RunStore, faults) -> Run:
    made = store.create("kimi", {"command.json": COMMAND})
    made.log.write_text(faults.STARTED)
    return made


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Fills the disk, as far as recordings are concerned, and empties it."""
    write, full = os.write, False

    def limited(file: int, data: bytes) -> int:
        if full and os.readlink(f"/proc/self/fd/{file}").endswith(recording.NAME):
            if len(data) < 8:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data[: len(data) // 2])
        return write(file, data)

    def fill(now: bool) -> None:
        nonlocal full
        full = now

    monkeypatch.setattr(os, "write", limited)
    return fill


async def test_a_recorder_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    store: RunStore, run: Run, disk: Callable[[bool], None], faults
) -> None:
    def unrecorded(snapshot) -> bool:
        return any(caution.kind == "not-recorded" and "disk is full" in caution.text for caution in snapshot.warnings)

    feed = LiveFeed(RehearsalPlace(Settings()), store, of_run(run))
    async with faults.running(feed) as until:
        await until(lambda s: len(s.gpus) == 8 and bool(s.ranks))
        disk(True)
        ill = await until(unrecorded)
        assert ill.ranks[0].base == 72.33
        with run.log.open("a") as log:  # the screen goes on
            log.write(
                "[2026-11-29 12:41:01 TP0] KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB\n"
            )
        await until(lambda s: s.ranks[0].kv_base == 2.0)
        disk(False)
        well = await until(lambda s: not unrecorded(s))
        await until(lambda s: s.at > well.at + 2.0)
    told = [line.entry for line in recording.read(run.path)]
    assert any(isinstance(fact, GpuSample) and fact.at > well.at - 2.0 for fact in told)


def test_a_recorder_whose_disk_is_full_from_the_start_raises_nothing(run: Run, disk: Callable[[bool], None]) -> None:
    disk(True)
    recorder = Recorder(run.path)
    recorder.record([GpuSample(at=1.0, source="nvml")])
    recorder.close()
    assert recorder.problem is not None
    assert "disk is full" in recorder.problem


@pytest.fixture
def read_only(store: RunStore, run: Run) -> Iterator[Path]:
    """The state directory, in which nothing can be written any more; root needs a mount for that."""
    root = store.root
    if os.geteuid() == 0:
        done = None
        if shutil.which("mount") is not None:
            done = subprocess.run(["mount", "--bind", root, root], capture_output=True, check=False)
        if done is None or done.returncode:
            pytest.skip("mounting is not allowed here")
        subprocess.run(["mount", "-o", "remount,bind,ro", root], capture_output=True, check=True)
        yield root
        subprocess.run(["umount", "-l", root], capture_output=True, check=True)
        return
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    yield root
    for folder in folders:
        folder.chmod(0o700)


def test_a_read_only_state_directory_shows_what_it_holds(read_only: Path, run: Run, faults) -> None:
    told = {**os.environ, "SPECDECK_STATE_DIR": str(read_only), "PYTHONPATH": str(faults.ROOT)}

    def specdeck(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tui", *arguments]
        return subprocess.run(command, env=told, capture_output=True, text=True, timeout=60, check=False)

    for command, words in (("runs", "kimi"), ("status", "loading weights"), ("doctor", "loading weights")):
        done = specdeck(command, *([] if command == "runs" else [run.name]))
        assert "Traceback" not in done.stderr, done
        assert words in done.stdout, done
    refused = specdeck("run", "kimi-k2.5-base", "--rehearsal", "--yes")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert str(read_only) in refused.stderr


async def test_watching_a_run_in_a_read_only_state_directory(
    read_only: Path, store: RunStore, run: Run, faults
) -> None:
    feed = LiveFeed(RehearsalPlace(Settings()), store, of_run(run))
    async with faults.running(feed) as until:
        told = await until(lambda s: bool(s.ranks) and any(c.kind == "not-recorded" for c in s.warnings))
        assert told.ranks[0].base == 72.33


def unread(snapshot: Snapshot) -> bool:
    return any(caution.kind == "log-unread" for caution in snapshot.warnings)


async def test_a_terminal_in_place_of_a_log_loses_no_key(tmp_path: Path, faults) -> None:
    """What is typed there is somebody else's."""
    master, terminal = pty.openpty()
    try:
        tty.setraw(terminal)
        os.write(master, b"typed\n")
        feed = LiveFeed(RehearsalPlace(Settings()), RunStore(tmp_path / "state"), of_log(Path(os.ttyname(terminal))))
        async with faults.running(feed) as until:
            told = await until(unread)
            assert told.log_lines == 0
        assert select.select([terminal], [], [], 10)[0]
        assert os.read(terminal, 100) == b"typed\n"
    finally:
        os.close(terminal)
        os.close(master)


async def test_a_pipe_in_place_of_a_log_is_left_to_its_reader(tmp_path: Path, faults) -> None:
    pipe = tmp_path / "server.log"
    os.mkfifo(pipe)
    feed = LiveFeed(RehearsalPlace(Settings()), RunStore(tmp_path / "state"), of_log(pipe))
    async with faults.running(feed) as until:
        assert (await until(unread)).log_lines == 0
        with pytest.raises(OSError, match="No such device") as refused:  # nobody has it open for reading
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        assert refused.value.errno == errno.ENXIO


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_the_doctor_reads_a_log_from_where_it_comes(tmp_path: Path, faults, kind: str) -> None:
    """`doctor` reads once what it is given, to its end: here a pipe or a terminal may be meant."""
    text = (faults.ROOT / "tests/fixtures/sglang-0.5.23/budget-refused/server.log").read_bytes()
    if kind == "pipe":
        name = tmp_path / "server.log"
        os.mkfifo(name)
        writer = threading.Thread(target=name.write_bytes, args=(text,))
    else:
        master, terminal = pty.openpty()
        tty.setraw(terminal)
        name = Path(os.ttyname(terminal))

        def write() -> None:
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(master, rest) :]
            while select.select([terminal], [], [], 0)[0]:
                select.select([], [], [], 0.02)
            os.close(terminal)
            os.close(master)

        writer = threading.Thread(target=write)
    writer.start()
    report = examine(str(name))
    writer.join()
    assert report.verdict is not None
    assert report.verdict.kind == "weights-over-budget"
