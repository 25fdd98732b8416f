"""A run as one file for a colleague: `.specdeck-run.tar.gz`, with the secrets masked; and back."""

import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tui.errors import SpecdeckError
from tui.files import store_error
from tui.patterns import lazy
from tui.runs import recording
from tui.runs.store import Run, RunStore
from tui.sglang.secrets import mask_text

SUFFIX = ".specdeck-run.tar.gz"
_FILES = (
    "profile.toml", "command.json", "keeper.json", "ready.json", "exit.json", "control.jsonl", "server.log",
    recording.NAME, recording.PACKED, "summary.json", "bench.jsonl", "notes.json",
)  # fmt: skip
_LARGEST_BYTES = 8 << 30
_NAME = lazy(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,120}")


class ArchiveError(SpecdeckError):
    """A file that is no recording, or cannot be made one."""


def export(run: Run, target: Path) -> Path:
    """Write the run to `target` (a file, or a folder to put it in). Raises ArchiveError and StoreError.

    The files were masked when they were written; texts are masked once more, as a server may log what it likes.
    """
    if run.damaged is not None:
        raise ArchiveError(f"{run.name} is damaged ({run.damaged}): there is nothing to hand on.")
    path = target / f"{run.name}{SUFFIX}" if target.is_dir() else target
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with tarfile.open(temporary, "w:gz") as archive:
            for name in _FILES:
                source = run.path / name
                if source.is_file():
                    _add(archive, f"{run.name}/{name}", source)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise store_error(error, path) from error
    return path


def bring_in(source: Path, store: RunStore) -> Run:
    """Add an exported run to the store, under its own name. Raises ArchiveError and StoreError."""
    try:
        with tarfile.open(source, "r:gz") as archive:
            members = [member for member in archive if member.isfile()]
            names = {member.name.partition("/")[0] for member in members}
            if len(names) != 1 or not _NAME.fullmatch(name := names.pop()) or _unknown(members):
                raise ArchiveError(f"{source} is no run that specdeck exported.")
            if sum(member.size for member in members) > _LARGEST_BYTES:
                raise ArchiveError(f"{source} is too large to be taken in.")
            return _unpack(archive, members, name, store)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ArchiveError(f"{source} is no run that specdeck exported, or it was cut.") from error
    except FileNotFoundError as error:
        raise ArchiveError(f"There is no file {source}.") from error
    except OSError as error:
        raise ArchiveError(f"{source} cannot be read: {error.strerror or error}.") from error


def _unknown(members: Iterable[tarfile.TarInfo]) -> bool:
    return any(member.name.partition("/")[2] not in _FILES for member in members)


def _unpack(archive: tarfile.TarFile, members: list[tarfile.TarInfo], name: str, store: RunStore) -> Run:
    folder = store.folder / name
    if folder.exists():
        raise ArchiveError(f"A run {name} is already there: delete it first, if this one shall take its place.")
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = store.folder / f".in-{name}.{os.getpid()}"
    try:
        new.mkdir(mode=0o700)
        for member in members:
            file = archive.extractfile(member)
            if file is not None:
                with open(os.open(new / Path(member.name).name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
                    while block := file.read(1 << 20):
                        out.write(block)
        os.rename(new, folder)
    except OSError as error:
        raise store_error(error, folder) from error
    finally:
        if new.exists():
            for left in new.iterdir():
                left.unlink()
            new.rmdir()
    return store.load(name)


def _add(archive: tarfile.TarFile, name: str, source: Path) -> None:
    if source.suffix == ".gz" or source.name == recording.NAME:
        archive.add(source, name, recursive=False)  # facts are masked by those who make them
        return
    masked = _masked(source)
    info = tarfile.TarInfo(name)
    info.mode, info.mtime, info.size = 0o600, int(source.stat().st_mtime), len(masked)
    archive.addfile(info, io.BytesIO(masked))


def _masked(source: Path) -> bytes:
    text = source.read_bytes().decode("utf-8", "surrogateescape")
    if source.suffix in (".json", ".toml"):
        return text.encode("utf-8", "surrogateescape")  # masked by structure when they were written
    return "\n".join(_lines(text.split("\n"))).encode("utf-8", "surrogateescape")


def _lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.startswith("{") and _is_json(line) else mask_text(line)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
