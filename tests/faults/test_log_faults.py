"""What can happen to a log while it is followed. Each time: a sentence, and everything again when it is over."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tui.feed.live import LiveFeed
from tui.feed.place import RehearsalPlace
from tui.feed.targets import of_log
from tui.rehearsal.machine import Settings
from tui.runs.store import RunStore
from tui.snapshot import Snapshot


@pytest.fixture
def log(tmp_path: Path, faults) -> Path:
    path = tmp_path / "logs" / "server.log"
    path.parent.mkdir()
    path.write_text(faults.STARTED)
    return path


@pytest.fixture
def feed(tmp_path: Path, log: Path) -> LiveFeed:
    return LiveFeed(RehearsalPlace(Settings()), RunStore(tmp_path / "state"), of_log(log))


def remove(log: Path) -> None:
    log.unlink()


def remove_the_folder(log: Path) -> None:
    shutil.rmtree(log.parent)


def put_a_folder_in_its_place(log: Path) -> None:
    log.unlink()
    log.mkdir()


def put_a_pipe_in_its_place(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def link_to_itself(log: Path) -> None:
    log.unlink()
    log.symlink_to(log)


def unread(snapshot: Snapshot) -> bool:
    return any(caution.kind == "log-unread" for caution in snapshot.warnings)


@pytest.mark.parametrize(
    "fault", [remove, remove_the_folder, put_a_folder_in_its_place, put_a_pipe_in_its_place, link_to_itself]
)
async def test_the_log_goes_and_comes_back(log: Path, feed: LiveFeed, faults, fault) -> None:
    async with faults.running(feed) as until:
        await until(lambda s: s.log_lines == 2 and bool(s.ranks))
        fault(log)
        if fault in (remove, remove_the_folder):  # a log that is not there may come
            gone = feed.snapshot.at
            told = await until(lambda s: s.at > gone + 1.2)
            assert not unread(told)
        else:
            told = await until(unread)
        assert told.ranks[0].base == 72.33
        if log.is_dir() and not log.is_symlink():
            log.rmdir()
        elif log.is_fifo() or log.is_symlink():
            log.unlink()
        log.parent.mkdir(exist_ok=True)
        log.write_text("a new file\n" * 5)
        back = await until(lambda s: s.log_lines == 7)
        assert back.ranks[0].base == 72.33
        await until(lambda s: not unread(s))
        view = feed.log
        assert view is not None
        assert (view.lines_before, view.index.count) == (2, 5)


def mount(*arguments: object) -> bool:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(file: int, data: bytes) -> int:
    """Write until the disk is full; how much of the data fitted."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return written


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting needs root")
async def test_a_log_on_a_disk_that_is_full(tmp_path: Path, faults) -> None:
    """The half line that fitted is no line; when there is room again its rest is read with it."""
    folder = tmp_path / "full"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", folder):
        pytest.skip("mounting is not allowed here")
    try:
        log = folder / "server.log"
        log.write_text(faults.STARTED)
        (folder / "ballast").write_bytes(b"x" * 4096)
        feed = LiveFeed(RehearsalPlace(Settings()), RunStore(tmp_path / "state"), of_log(log))
        async with faults.running(feed) as until:
            await until(lambda s: s.log_lines == 2)
            long = b"y" * 30_000 + b"\n"
            with log.open("ab", buffering=0) as file:
                written = fill(file.fileno(), long)
                assert 0 < written < len(long)
                seen = feed.snapshot.at
                assert (await until(lambda s: s.at > seen + 0.8)).log_lines == 2
                assert mount("-o", "remount,size=128k", folder)
                file.write(long[written:])
            await until(lambda s: s.log_lines == 3)
            assert feed.log is not None
            assert feed.log.index.read(2, 1) == [long[:-1].decode()]
    finally:
        unmount(folder)
