"""A run handed to a colleague as one file."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tui.facts import Exited, Mark
from tui.runs.archive import SUFFIX, ArchiveError, bring_in, export
from tui.runs.store import Run, RunStore
from tui.runs.timeline import facts_of

Make = Callable[..., Run]
AT = 1_800_000_000.0


def test_what_arrives_is_what_was_sent(made: Make, tmp_path: Path) -> None:
    run = made(log="[2027-01-15 08:00:01] The server is fired up and ready to roll!\n", facts=[Mark(at=AT, text="try")])
    path = export(run, tmp_path)
    assert path.name == f"{run.name}{SUFFIX}"
    there = RunStore(tmp_path / "colleague")
    arrived = bring_in(path, there)
    assert arrived.name == run.name
    assert list(facts_of(arrived)) == list(facts_of(run))
    assert (arrived.path.stat().st_mode & 0o777, (arrived.path / "server.log").stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(ArchiveError, match="already there"):
        bring_in(path, there)
    assert [item.name for item in there.folder.iterdir()] == [run.name]


def test_secrets_that_the_server_logged_stay_here(made: Make, tmp_path: Path) -> None:
    run = made(log="[2027-01-15 08:00:01] Authorization: Bearer abcdef123456\n--api-key topsecret1\n")
    (run.path / "keeper.sock").write_text("not to be sent")
    path = export(run, tmp_path / "one.tar.gz")
    with tarfile.open(path) as archive:
        names = archive.getnames()
        texts = b"".join(archive.extractfile(member).read() for member in archive if member.isfile())
    assert not any("sock" in name for name in names)
    assert b"abcdef123456" not in texts
    assert b"topsecret1" not in texts


@pytest.mark.parametrize("name", ["../evil", "run/../../evil", "/etc/evil", "run/other.txt", ".hidden/server.log"])
def test_an_archive_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = 4
        archive.addfile(info, io.BytesIO(b"evil"))
    store = RunStore(tmp_path / "state")
    with pytest.raises(ArchiveError, match="no run that specdeck exported"):
        bring_in(path, store)
    assert not list(tmp_path.rglob("evil"))


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("run/server.log")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(ArchiveError):
        bring_in(path, RunStore(tmp_path / "state"))


def test_a_cut_archive_and_a_missing_one_are_told(made: Make, tmp_path: Path) -> None:
    path = export(made(log="x\n" * 5000, exited=Exited(at=AT + 9, code=0)), tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    store = RunStore(tmp_path / "there")
    with pytest.raises(ArchiveError, match=r"was cut|no run"):
        bring_in(path, store)
    with pytest.raises(ArchiveError, match="no file"):
        bring_in(tmp_path / "missing.tar.gz", store)
    assert store.names() == []


def test_a_damaged_run_is_not_sent(made: Make, store: RunStore, tmp_path: Path) -> None:
    run = made()
    (run.path / "command.json").unlink()
    with pytest.raises(ArchiveError, match="damaged"):
        export(store.load(run.name), tmp_path)
