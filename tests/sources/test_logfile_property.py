"""Any history of a log file gives each of its lines exactly once and in order."""

import os
import re
import tempfile
from pathlib import Path
from typing import Self

from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sources.lineindex import LineIndex
from tui.sources.logfile import LogFollower, LogLine

# Pieces that hurt: cut UTF-8, invalid bytes, NULs, CRs, bidi and zero-width characters, newlines in odd places.
PIECES = [
    *(b"\n", b"\n\n", b"\r", b"\r\n", b"\0", b"\0\0\n", b"a", b"load 12%\r", b"\x1b[31m", b"\xff\xfe", b"\xc0\x80"),
    *("ü€😀".encode(), b"\xf0\x9f", b"\x98\x80", b"\xe2\x82", b"\xac", "\u202eabc\u2066\u200b\u2028\x85".encode()),
]
DATA = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=8).map(b"".join)
MOVES = ["rotate", "replace", "recreate", "vanish", "directory"]
OPS = st.one_of(
    st.tuples(st.sampled_from(["append", "append", "late", "truncate", *MOVES]), DATA),
    st.tuples(st.just("poll"), st.binary(min_size=1, max_size=3)),
    st.just(("drain", b"")),
)
SLICES = st.sampled_from([1, 2, 3, 7, 64, 1 << 20])


class World:
    """A log's folder as its writer and its rotation see it, with what each file ever held, and a reader beside it."""

    def __init__(self, slice_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "server.log"
        self.generations: list[bytearray] = []
        self.stamps = 0
        self.renamed = 0
        self._files: dict[tuple[int, int], tuple[int, bytearray]] = {}
        self.follower = LogFollower(self.path, slice_bytes=slice_bytes)
        self.got: list[LogLine] = []
        self.partial = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.follower.close()
        for fd, _content in self._files.values():
            os.close(fd)
        self._folder.cleanup()

    def poll(self) -> bool:
        chunk = self.follower.poll()
        self.got += chunk.lines
        self.partial = chunk.partial
        return chunk.more

    def drain(self) -> None:
        for _ in range(100_000):
            if not self.poll():
                return
        raise AssertionError("the reader never comes to an end")

    def stamp(self, data: bytes) -> bytes:
        """Give every line in `data` a number that no other line has."""
        parts = data.split(b"\n")
        for place, part in enumerate(parts):
            if part or place < len(parts) - 1:
                self.stamps += 1
                parts[place] = b"<%06d>" % self.stamps + part
        return b"\n".join(parts)

    def read_identity(self) -> tuple[int, int] | None:
        fd = self.follower.dup_fd()
        if fd is None:
            return None
        found = os.fstat(fd)
        os.close(fd)
        return found.st_dev, found.st_ino

    def named_identity(self) -> tuple[int, int] | None:
        if not self.path.is_file():
            return None
        found = self.path.stat()
        return found.st_dev, found.st_ino

    def write(self, identity: tuple[int, int], data: bytes) -> None:
        fd, content = self._files[identity]
        os.write(fd, data)
        content += data

    def content(self, identity: tuple[int, int]) -> bytes:
        return bytes(self._files[identity][1])

    def later_generations(self, identity: tuple[int, int]) -> list[bytearray]:
        content = self._files[identity][1]
        place = next(place for place, one in enumerate(self.generations) if one is content)
        return self.generations[place + 1 :]

    def create(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        found = os.fstat(fd)
        content = bytearray()
        self._files[found.st_dev, found.st_ino] = fd, content
        self.generations.append(content)
        self.write((found.st_dev, found.st_ino), data)

    def truncate(self, identity: tuple[int, int], data: bytes) -> None:
        fd, content = self._files[identity]
        os.ftruncate(fd, 0)
        if content and not content.endswith(b"\n"):
            content += b"\n"  # after a cut nothing can complete the last line: it is one
        fresh = bytearray()
        self.generations.insert(len(self.generations) - len(self.later_generations(identity)), fresh)
        self._files[identity] = fd, fresh
        self.write(identity, data)

    def move(self, op: str, data: bytes) -> None:
        """Take the name from the file that has it, and give it to something else or nothing."""
        self.renamed += 1
        aside = self.path.with_name(f"server.log.{self.renamed}")
        if self.path.is_dir():
            self.path.rmdir()
        if op == "rotate" and self.path.exists():
            self.path.rename(aside)
        elif op != "replace":
            self.path.unlink(missing_ok=True)
        if op == "directory":
            self.path.mkdir()
        elif op == "replace":
            self.create(aside, data)
            os.replace(aside, self.path)
        elif op != "vanish":
            self.create(self.path, data)

    def do(self, op: str, data: bytes) -> None:
        named, read = self.named_identity(), self.read_identity()
        if op == "poll":
            for _ in range(len(data)):
                self.poll()
        elif op == "drain":
            self.drain()
        elif op == "late":
            # The writer has not yet noticed that its file was renamed or deleted.
            if read is not None and read != named and not any(self.later_generations(read)):
                self.write(read, self.stamp(data))
        elif op in MOVES:
            self.move(op, self.stamp(data))
        elif named is None:
            self.move("recreate", self.stamp(data))
        elif op == "append":
            self.write(named, self.stamp(data))
        else:
            self.truncate(named, self.stamp(data))


def expected_lines(generations: list[bytearray]) -> tuple[list[str], str]:
    """Each line once, a generation's unfinished last line among them except the very last one's, given apart."""
    lines: list[bytes] = []
    unfinished = b""
    for content in filter(None, generations):
        lines += [unfinished] if unfinished else []
        *complete, unfinished = bytes(content).split(b"\n")
        lines += complete
    return [line.decode("utf-8", "replace") for line in lines], unfinished.decode("utf-8", "replace")


@settings(max_examples=200, deadline=None)
@given(st.lists(OPS, max_size=25), SLICES)
def test_every_line_once_in_order_when_nothing_is_cut_away_unseen(
    ops: list[tuple[str, bytes]], slice_bytes: int
) -> None:
    """The reader is at the end before a cut, and looks once before a name moves; slices end anywhere."""
    with World(slice_bytes) as world:
        for op, data in ops:
            if op == "truncate":
                world.drain()
            if op in MOVES:
                world.poll()
            world.do(op, data)
        world.drain()
        lines, unfinished = expected_lines(world.generations)
        assert [line.text for line in world.got] == lines
        assert [line.number for line in world.got] == list(range(1, len(lines) + 1))
        assert sorted(line.generation for line in world.got) == [line.generation for line in world.got]
        # A last character that has come in part only may be left out.
        assert unfinished.startswith(world.partial)
        assert len(unfinished) - len(world.partial) <= 1


@settings(max_examples=200, deadline=None)
@given(st.lists(OPS, max_size=25), SLICES)
def test_never_twice_and_nothing_visible_lost_in_any_history(ops: list[tuple[str, bytes]], slice_bytes: int) -> None:
    """Without a look before a cut or a change of name: no line twice, none out of order, none missed that is there."""
    with World(slice_bytes) as world:
        for op, data in [*ops, ("drain", b"")]:
            world.do(op, data)
            stamps = [int(found) for line in world.got for found in re.findall(r"<(\d{6})>", line.text)]
            assert stamps == sorted(set(stamps))
            named = world.named_identity()
            if op == "drain" and named:
                complete = world.content(named).rpartition(b"\n")[0]
                assert {int(found) for found in re.findall(rb"<(\d{6})>", complete)} <= set(stamps)


@settings(max_examples=100, deadline=None)
@given(st.lists(DATA, max_size=20), SLICES, st.integers(1, 50))
def test_follower_and_index_agree_byte_for_byte(writes: list[bytes], slice_bytes: int, grow: int) -> None:
    """Two readers of one growing file, at different paces, see the same lines: the whole file split at LF."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        path.touch()
        with LogFollower(path, slice_bytes=slice_bytes) as follower, LineIndex.open(path) as index:
            got: list[LogLine] = []
            for data in writes:
                with path.open("ab") as file:
                    file.write(data)
                got += follower.poll().lines
                index.grow(grow)
            while (chunk := follower.poll()).more:
                got += chunk.lines
            got += chunk.lines
            while index.grow(grow):
                pass
            body = b"".join(writes).lstrip(b"\0")
            whole = [line.decode("utf-8", "replace") for line in body.split(b"\n")]
            assert [line.text for line in got] == whole[:-1]
            lines = whole if whole[-1] else whole[:-1]
            assert (index.read(0, len(lines) + 5), index.count) == (lines, len(lines))
            assert index.complete == len(whole) - 1
            assert [index.read(first, 2) for first in range(len(lines))] == [
                lines[at : at + 2] for at in range(len(lines))
            ]
