"""Writing so that nothing is ever half-written, and saying in a sentence why it could not be written."""

import contextlib
import errno
import json
import os
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Json

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class StoreError(SpecdeckError):
    """The state directory could not be read or written: which file, why, what to do."""


def store_error(error: OSError, path: Path) -> StoreError:
    """The sentence for an operating-system error on a file of the state directory."""
    if error.errno in _FULL:
        return StoreError(
            f"No room to write {path}: the disk is full or a limit is reached. "
            "Free some space, or set SPECDECK_STATE_DIR to a folder on another disk."
        )
    if error.errno in _REFUSED:
        why = "it is read-only" if error.errno == errno.EROFS else "permission denied"
        return StoreError(f"Cannot write {path}: {why}. Set SPECDECK_STATE_DIR to a folder that you may write.")
    if error.errno == errno.ENOENT:
        return StoreError(f"Cannot write {path}: its folder is not there. SPECDECK_STATE_DIR names another.")
    return StoreError(f"Cannot write {path}: {error.strerror or error}.")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole, mode 0600: a reader sees the old text or the new one. Raises StoreError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            write_all(file, text.encode())
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise store_error(error, path) from error


def write_json(path: Path, data: Json) -> None:
    """Replace a JSON file as a whole. Raises StoreError."""
    write_atomically(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Json]:
    """A JSON object from a file. Raises FileNotFoundError, and StoreError when it is not a readable JSON object."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path.name} is not JSON") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path.name} is not a JSON object")
    return data


def append_lines(path: Path, lines: list[str]) -> None:
    """Append whole lines to a file, mode 0600, all or none: what did not fit is taken back. Raises StoreError."""
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(file).st_size
            try:
                write_all(file, text)
            except OSError:
                os.ftruncate(file, before)
                raise
        finally:
            os.close(file)
    except OSError as error:
        raise store_error(error, path) from error


def write_all(file: int, data: bytes) -> None:
    """Write all of it to a descriptor; a disk that fills up in the middle raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
