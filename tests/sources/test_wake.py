"""Wake-ups: early where the kernel tells, by ticks where it does not, and never an end before `stop`."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tui.sources import wake
from tui.sources.logfile import LogFollower
from tui.sources.wake import file_system_type, is_remote, needs_polling, wake_ups

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 0:40 / /data rw shared:1 master:2 - nfs4 filer:/export rw
29 28 0:41 / /data/local rw - xfs /dev/sdb rw
30 27 0:42 / /mnt/with\040space rw - fuse.sshfs me@host: rw
31 27 0:43 / /over rw - tmpfs tmpfs rw
32 27 0:44 / /over rw - 9p host rw
a broken line
"""
NEVER_S = 3600.0


@pytest.mark.parametrize(
    ("path", "kind", "remote"),
    [
        ("/var/log", "ext4", False),
        ("/data", "nfs4", True),
        ("/data/logs", "nfs4", True),
        ("/data/local/logs", "xfs", False),
        ("/database", "ext4", False),
        ("/mnt/with space/x", "fuse.sshfs", True),
        ("/over/x", "9p", True),
    ],
)
def test_file_system_of_a_path(path: str, kind: str, remote: bool) -> None:
    assert file_system_type(path, MOUNTS) == kind
    assert is_remote(kind) is remote


def test_unknown_file_system_is_watched() -> None:
    assert file_system_type("/x", "") is None
    assert not is_remote(None)
    assert not is_remote("overlay")


def test_environment_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "true")
    assert needs_polling(tmp_path)
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "false")
    assert not needs_polling(tmp_path)


@contextlib.asynccontextmanager
async def following(path: Path, **options: float) -> AsyncIterator[asyncio.Queue[str]]:
    """The follower behind wake-ups, its lines in a queue; ends by `stop`, which must end it."""
    stop = asyncio.Event()
    lines: asyncio.Queue[str] = asyncio.Queue()

    async def consume() -> None:
        with LogFollower(path) as follower:
            async for _ in wake_ups(path, stop, **options):
                more = True
                while more:
                    chunk = follower.poll()
                    more = chunk.more
                    for line in chunk.lines:
                        lines.put_nowait(line.text)

    task = asyncio.create_task(consume())
    try:
        yield lines
    finally:
        stop.set()
        await asyncio.wait_for(task, 30)


async def next_line(lines: asyncio.Queue[str]) -> str:
    return await asyncio.wait_for(lines.get(), 30)


async def watching(path: Path, lines: asyncio.Queue[str]) -> None:
    """Write until the watch has told of a write: from then on each further write must be told."""
    for _ in range(300):
        with path.open("ab") as file:
            file.write(b"warm\n")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(lines.get(), 0.1)
            break
    await asyncio.sleep(0.3)
    while not lines.empty():
        lines.get_nowait()


async def test_watch_alone_tells_of_every_kind_of_change(tmp_path: Path) -> None:
    """No tick helps here: each line is seen because the directory's watch told."""
    path = tmp_path / "server.log"
    path.touch()
    async with following(path, tick_s=NEVER_S) as lines:
        await watching(path, lines)
        with path.open("ab") as file:
            file.write(b"appended\n")
        assert await next_line(lines) == "appended"
        path.rename(tmp_path / "server.log.1")
        path.write_bytes(b"rotated\n")
        assert await next_line(lines) == "rotated"
        (tmp_path / "new").write_bytes(b"replaced\n")
        os.replace(tmp_path / "new", path)
        assert await next_line(lines) == "replaced"
        path.write_bytes(b"cut\n")
        assert await next_line(lines) == "cut"
        path.unlink()
        path.write_bytes(b"made anew\n")
        assert await next_line(lines) == "made anew"


async def test_other_files_do_not_wake(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.touch()
    stop = asyncio.Event()
    wakes: asyncio.Queue[None] = asyncio.Queue()

    async def count() -> None:
        async for _ in wake_ups(path, stop, tick_s=NEVER_S):
            wakes.put_nowait(None)

    async def touch_until_told(name: str) -> bool:
        for _ in range(20):
            (tmp_path / name).write_bytes(b"x")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wakes.get(), 0.05)
                return True
        return False

    task = asyncio.create_task(count())
    await wakes.get()
    assert await touch_until_told("server.log")
    await asyncio.sleep(0.3)
    while not wakes.empty():
        wakes.get_nowait()
    assert not await touch_until_told("server.log.1")
    assert await touch_until_told("server.log")
    stop.set()
    await asyncio.wait_for(task, 30)


async def test_behind_a_symbolic_link(tmp_path: Path) -> None:
    target = tmp_path / "pods" / "0.log"
    target.parent.mkdir()
    target.touch()
    path = tmp_path / "server.log"
    path.symlink_to(target)
    async with following(path, tick_s=NEVER_S) as lines:
        await watching(target, lines)
        with target.open("ab") as file:
            file.write(b"through the link\n")
        assert await next_line(lines) == "through the link"


async def test_directory_that_comes_goes_and_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "run" / "server.log"
    async with following(path, tick_s=0.05) as lines:
        for word in ("first", "second"):
            path.parent.mkdir()
            path.write_bytes(word.encode() + b"\n")
            assert await next_line(lines) == word
            path.unlink()
            path.parent.rmdir()
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("problem", [OSError("no watches left"), RuntimeError("no instance left"), PermissionError()])
async def test_ticks_when_watching_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def fail(*_paths: object, **_options: object) -> None:
        raise problem

    monkeypatch.setattr("watchfiles.watch", fail)
    path = tmp_path / "server.log"
    async with following(path, poll_s=0.02) as lines:
        await asyncio.sleep(0.1)
        path.write_bytes(b"one\n")
        assert await next_line(lines) == "one"


async def test_ticks_on_a_remote_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_paths: object, **_options: object) -> None:
        raise AssertionError("watched a remote file system")

    monkeypatch.setattr("watchfiles.watch", never)
    monkeypatch.setattr(wake, "file_system_type", lambda *_: "nfs4")
    path = tmp_path / "server.log"
    async with following(path, poll_s=0.02) as lines:
        path.write_bytes(b"one\n")
        assert await next_line(lines) == "one"


async def test_cancelled_and_left_early_nothing_stays(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.touch()
    before = len(asyncio.all_tasks())
    async with contextlib.aclosing(wake_ups(path, asyncio.Event())) as wakes:
        async for _ in wakes:
            break

    async def forever() -> None:
        async for _ in wake_ups(path, asyncio.Event()):
            pass

    task = asyncio.create_task(forever())
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == before


def test_importing_it_does_not_import_watchfiles() -> None:
    code = "import sys, tui.sources.wake, tui.sources.logfile; sys.exit('watchfiles' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
