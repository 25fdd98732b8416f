"""The keeper's control socket in the run folder: one JSON line asks, one JSON line answers."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Json

SOCKET = "keeper.sock"
LONGEST_REQUEST = 64 << 10


class KeeperUnreachableError(SpecdeckError):
    """No keeper answers in this run folder."""


def listen(folder: Path) -> socket.socket:
    """A non-blocking listening socket, mode 0600. Raises OSError, e.g. on file systems without sockets."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(folder) as path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(path)
            os.chmod(path, 0o600)
        listener.listen(16)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def ask(folder: Path, request: Mapping[str, Json], timeout_s: float = 5.0) -> dict[str, Json]:
    """The keeper's answer. Raises KeeperUnreachableError when none comes within `timeout_s`."""
    try:
        with _short(folder) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline())
    except (OSError, ValueError) as error:
        raise KeeperUnreachableError(f"The keeper of {folder.name} does not answer: {error}.") from error
    if not isinstance(answer, dict):
        raise KeeperUnreachableError(f"The keeper of {folder.name} gave no sensible answer.")
    return answer


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A path to the socket that is short whatever the folder's: the kernel takes 107 bytes."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)
