"""The follower through what happens to log files, one event at a time."""

import errno
import os
import stat
from pathlib import Path

import pytest

from tui.sources import openlog
from tui.sources.lineindex import LineIndex
from tui.sources.linetext import line_text
from tui.sources.logfile import LogChunk, LogFollower, LogLine, Reset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def texts(chunk: LogChunk) -> list[str]:
    return [line.text for line in chunk.lines]


def test_absent_then_there(path: Path) -> None:
    follower = LogFollower(path)
    chunk = follower.poll()
    assert (chunk.missing, chunk.error, chunk.lines, chunk.more, chunk.size) == (True, None, (), False, 0)
    assert follower.dup_fd() is None
    path.write_bytes(b"one\ntw")
    chunk = follower.poll()
    assert (chunk.missing, chunk.lines, chunk.partial) == (False, (LogLine(1, "one", 0),), "tw")
    append(path, b"o\n")
    chunk = follower.poll()
    assert (chunk.lines, chunk.partial, chunk.reset) == ((LogLine(2, "two", 0),), "", None)
    follower.close()


def test_reads_a_slice_at_a_time_and_says_that_more_waits(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(100)))
    with LogFollower(path, slice_bytes=100) as follower:
        chunks = [follower.poll()]
        while chunks[-1].more:
            chunks.append(follower.poll())
    assert [chunk.offset for chunk in chunks] == [min(100 * n, 790) for n in range(1, 9)]
    assert [text for chunk in chunks for text in texts(chunk)] == [f"line {number}" for number in range(100)]


def test_rename_and_create_drains_the_old_file_first(path: Path) -> None:
    path.write_bytes(b"one\n")
    with LogFollower(path) as follower:
        follower.poll()
        append(path, b"two\nunfinished")
        path.rename(path.with_suffix(".1"))
        path.write_bytes(b"three\n")
        chunk = follower.poll()
        assert chunk.lines == (LogLine(2, "two", 0), LogLine(3, "unfinished", 0))
        assert (chunk.reset, chunk.generation, chunk.base, chunk.more, chunk.partial) == (Reset.ROTATED, 1, 3, True, "")
        chunk = follower.poll()
        assert (chunk.lines, chunk.reset, chunk.more) == ((LogLine(4, "three", 1),), None, False)


def test_the_old_file_is_followed_until_the_new_one_has_bytes(path: Path) -> None:
    """logrotate creates the new file at once; the writer goes on in the old one until it is told."""
    old = path.with_suffix(".1")
    path.write_bytes(b"one\n")
    with LogFollower(path) as follower:
        follower.poll()
        path.rename(old)
        assert follower.poll().missing
        append(old, b"two\n")
        assert texts(follower.poll()) == ["two"]
        path.touch()
        append(old, b"three\n")
        chunk = follower.poll()
        assert (texts(chunk), chunk.reset, chunk.missing) == (["three"], None, False)
        append(old, b"four\n")
        append(path, b"five\n")
        assert texts(follower.poll()) + texts(follower.poll()) == ["four", "five"]


@pytest.mark.parametrize("how", ["replace", "delete"])
def test_replaced(path: Path, how: str) -> None:
    path.write_bytes(b"one\n")
    with LogFollower(path) as follower:
        follower.poll()
        if how == "delete":
            path.unlink()
            assert follower.poll().missing
        new = path.with_suffix(".new")
        new.write_bytes(b"two\n")
        os.replace(new, path)
        assert follower.poll().reset is Reset.REPLACED
        assert follower.poll().lines == (LogLine(2, "two", 1),)


def test_renamed_back_is_no_reset(path: Path) -> None:
    path.write_bytes(b"one\n")
    with LogFollower(path) as follower:
        follower.poll()
        path.rename(path.with_suffix(".1"))
        follower.poll()
        path.with_suffix(".1").rename(path)
        append(path, b"two\n")
        chunk = follower.poll()
        assert (chunk.lines, chunk.reset) == ((LogLine(2, "two", 0),), None)


@pytest.mark.parametrize("refill", [b"", b"x\n", b"two\n", b"three and more\nfour\n"])
def test_cut_in_place(path: Path, refill: bytes) -> None:
    """Refilled to less than before, to just as much, and beyond, all between two polls."""
    path.write_bytes(b"one\ntwo")
    with LogFollower(path) as follower:
        assert follower.poll().partial == "two"
        os.truncate(path, 0)
        append(path, refill)
        chunk = follower.poll()
        assert (chunk.reset, chunk.lines, chunk.partial) == (Reset.TRUNCATED, (LogLine(2, "two", 0),), "")
        assert texts(follower.poll()) == refill.decode().splitlines()


def test_rewritten_to_the_same_size_with_the_same_times(path: Path) -> None:
    path.write_bytes(b"one\n")
    found = path.stat()
    with LogFollower(path) as follower:
        follower.poll()
        path.write_bytes(b"two\n")
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert follower.poll().reset is Reset.TRUNCATED
        assert texts(follower.poll()) == ["two"]


@pytest.mark.parametrize("changed", ["start", "end"])
def test_a_big_refill_is_told_by_either_end_of_what_was_read(path: Path, changed: str) -> None:
    same = b"GET /health 200\n" * 1000
    path.write_bytes(b"first\n" + same if changed == "start" else same + b"first\n")
    with LogFollower(path) as follower:
        follower.poll()
        path.write_bytes(b"other\n" + same + same if changed == "start" else same + b"other\n" + same)
        assert follower.poll().reset is Reset.TRUNCATED


def test_writer_that_keeps_its_position_leaves_a_hole_which_is_skipped(path: Path) -> None:
    """`: > server.log` under a server started with `> server.log`: its next line lands behind a hole."""
    with path.open("wb", buffering=0) as writer, LogFollower(path) as follower:
        writer.seek(40_000_000)
        writer.write(b"before\n")
        assert texts(follower.poll()) == ["before"]
        os.truncate(path, 0)
        writer.write(b"after\n")
        assert follower.poll().reset is Reset.TRUNCATED
        chunk = follower.poll()
        assert (texts(chunk), chunk.more) == (["after"], False)
        fd = follower.dup_fd()
        assert fd is not None
        with LineIndex(fd) as index:
            assert [row.text.lstrip("\0") for row in index.tail(5)] == ["after"]
            while index.grow():
                pass
            assert index.read(0, 5) == [row.text for row in index.tail(5)] == ["after"]


def test_nuls_elsewhere_are_text(path: Path) -> None:
    path.write_bytes(b"\0\0a\0b\n\0c\n")
    with LogFollower(path) as follower:
        assert texts(follower.poll()) == ["a\0b", "\0c"]


def test_carriage_returns_bidi_and_broken_bytes_stay(path: Path) -> None:
    path.write_bytes(b" 10%\r 20%\r\n\xff\xe2\x82\n" + "\u202edrow\u2028x\x85y\x0bz\n".encode())
    with LogFollower(path) as follower:
        assert texts(follower.poll()) == [" 10%\r 20%\r", "\ufffd\ufffd", "\u202edrow\u2028x\x85y\x0bz"]


def test_a_monstrous_line_is_cut_and_the_next_one_whole(path: Path) -> None:
    monster = b"[" + b"1, " * 3_500_000 + b"] end"
    path.write_bytes(b"before\n" + monster)
    with LogFollower(path) as follower:
        while (chunk := follower.poll()).more:
            assert len(chunk.partial) < 70_000
        assert chunk.partial == line_text(monster)
        append(path, b"\nafter\n")
        chunk = follower.poll()
        assert texts(chunk) == [line_text(monster), "after"]
        assert chunk.offset == len(monster) + 14


def test_directory_in_its_place(path: Path) -> None:
    path.mkdir()
    with LogFollower(path) as follower:
        chunk = follower.poll()
        assert (chunk.error, chunk.missing) == (
            f"{path} is a directory, not a log file; give the path of a file.",
            False,
        )
        path.rmdir()
        path.write_bytes(b"one\n")
        chunk = follower.poll()
        assert (texts(chunk), chunk.error) == (["one"], None)
        path.unlink()
        path.mkdir()
        assert "is a directory" in (follower.poll().error or "")


def test_pipe_in_its_place_does_not_hang(path: Path) -> None:
    os.mkfifo(path)
    assert "a pipe" in (LogFollower(path).poll().error or "")
    with pytest.raises(OSError, match="a pipe"):
        openlog.open_regular(path)


def test_parent_is_a_file(path: Path) -> None:
    path.write_bytes(b"")
    error = LogFollower(path / "server.log").poll().error
    assert error == f"Cannot read {path / 'server.log'}: not a directory; trying again."


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_for_real(path: Path) -> None:
    path.write_bytes(b"one\n")
    path.chmod(0)
    assert "permission denied" in (LogFollower(path).poll().error or "")


def test_no_permission_then_given(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"one\n")

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with LogFollower(path) as follower:
        with monkeypatch.context() as patch:
            patch.setattr(openlog.os, "open", refuse)
            chunk = follower.poll()
            sentence = f"Cannot read {path}: permission denied; run as a user who may read it."
            assert (chunk.error, chunk.missing, chunk.lines) == (sentence, False, ())
        assert texts(follower.poll()) == ["one"]
        path.rename(path.with_suffix(".1"))
        path.write_bytes(b"three\n")
        append(path.with_suffix(".1"), b"two\n")
        with monkeypatch.context() as patch:
            patch.setattr(openlog.os, "open", refuse)
            chunk = follower.poll()
            assert (chunk.error, texts(chunk), chunk.reset) == (sentence, ["two"], None)
        assert follower.poll().reset is Reset.ROTATED
        assert texts(follower.poll()) == ["three"]


@pytest.mark.parametrize(("code", "reset"), [(errno.EIO, None), (errno.ESTALE, Reset.REPLACED)])
def test_read_fails(path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reset: Reset | None) -> None:
    """A passing error keeps the place; a stale handle can only be given up, and the name is opened anew."""
    path.write_bytes(b"one\n")

    def fail(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    with LogFollower(path) as follower:
        follower.poll()
        with monkeypatch.context() as patch:
            patch.setattr(openlog.os, "pread", fail)
            chunk = follower.poll()
            assert (chunk.reset, chunk.error is None) == (reset, reset is not None)
        append(path, b"two\n")
        assert texts(follower.poll()) == (["one", "two"] if reset else ["two"])


def test_begins_with_the_last_lines(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(50_000)) + b"unfin")
    with LogFollower(path, last=3) as follower:
        chunk = follower.poll()
        assert chunk.lines == (LogLine(1, "line 49998", 0), LogLine(2, "line 49999", 0))
        assert (chunk.partial, chunk.more) == ("unfin", False)
        append(path, b"ished\n")
        assert texts(follower.poll()) == ["unfinished"]
        path.write_bytes(b"new\n")
        assert follower.poll().reset is Reset.TRUNCATED
        assert texts(follower.poll()) == ["new"]


def test_begins_at_the_end_only_of_a_file_that_was_there(path: Path) -> None:
    with LogFollower(path, last=0) as follower:
        follower.poll()
        path.write_bytes(b"one\n")
        assert follower.poll().offset == 4
    with LogFollower(path, last=0) as follower:
        assert follower.poll().lines == ()
        append(path, b"two\n")
        assert texts(follower.poll()) == ["two"]


def test_a_reader_far_behind_loses_no_file_it_has_seen(path: Path) -> None:
    with LogFollower(path, slice_bytes=10) as follower:
        got = []
        for number in range(5):
            if path.exists():
                path.rename(path.with_suffix(f".{number}"))
            path.write_bytes(b"".join(b"%d-%d\n" % (number, line) for line in range(50)))
            got += texts(follower.poll())
        while (chunk := follower.poll()).more:
            got += texts(chunk)
        got += texts(chunk)
    assert got == [f"{number}-{line}" for number in range(5) for line in range(50)]


def test_name_given_away_and_back_without_a_byte(path: Path) -> None:
    path.write_bytes(b"one\n")
    with LogFollower(path) as follower:
        follower.poll()
        path.rename(path.with_suffix(".1"))
        path.touch()
        follower.poll()
        os.replace(path.with_suffix(".1"), path)
        append(path, b"two\n")
        for _ in range(3):
            chunk = follower.poll()
            assert chunk.reset is None
        assert (chunk.generation, chunk.offset) == (0, 8)
        path.rename(path.with_suffix(".1"))
        path.write_bytes(b"three\n")
        assert follower.poll().reset is Reset.ROTATED
        assert follower.poll().lines == (LogLine(3, "three", 1),)


def test_symbolic_link_turned_to_another_file(path: Path) -> None:
    for name in ("a", "b"):
        path.with_name(name).write_bytes(name.encode() + b"\n")
    path.symlink_to(path.with_name("a"))
    with LogFollower(path) as follower:
        assert texts(follower.poll()) == ["a"]
        path.unlink()
        path.symlink_to(path.with_name("b"))
        assert follower.poll().reset is Reset.ROTATED
        assert texts(follower.poll()) == ["b"]


def test_descriptors_are_closed(path: Path) -> None:
    def open_count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_count()
    with LogFollower(path) as follower:
        for number in range(5):
            path.unlink(missing_ok=True)
            path.write_bytes(b"%d\n" % number)
            while follower.poll().more:
                pass
        fd = follower.dup_fd()
        assert fd is not None
        assert stat.S_ISREG(os.fstat(fd).st_mode)
        os.close(fd)
        assert open_count() == before + 1
    assert open_count() == before
