"""What a server leaves behind outside its processes: shared memory and sockets that its end does not remove.

SGLang 0.5.23 leaves sglang_loads_*.shm, sgl_shm_* and dead ipc sockets even after a clean end.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tui.patterns import lazy, lazy_bytes
from tui.procid import process_table

SHM = "/dev/shm"
# Only names that SGLang, Python's multiprocessing or NCCL give: a model may lie in /dev/shm too.
_SHM_NAME = lazy(r"(sglang_loads_.+\.shm|sgl_shm_.+|multi_tokenizer_args_.+|sem\.mp-.+|psm_.+|nccl-.+)")
_SGL_PID = lazy(r"sgl_shm_.+_(\d{1,9})_[0-9a-f]+")
_MAPPED = lazy_bytes(rb"(/dev/shm/[^\n]+)\n")
_DELETED = b" (deleted)"


def held_files(pids: Iterable[int]) -> set[str]:
    """Shared memory that these processes have mapped, and socket files that they listen on."""
    bound = _bound_sockets()
    found: set[str] = set()
    for pid in pids:
        found |= {path for path in _mapped(pid) if _SHM_NAME.fullmatch(os.path.basename(path))}
        found |= {bound[inode] for inode in _socket_inodes(pid) if inode in bound}
    return found


def leftovers(known: Iterable[str], pids: Iterable[int]) -> list[str]:
    """Files that still lie there though no process uses them any more.

    `known`: what `held_files` told while the server ran. Added is shared memory that is stamped with one of `pids`.
    """
    ours = {str(pid) for pid in pids}
    stamps = ((name, _SGL_PID.fullmatch(name)) for name in _listdir(SHM))
    candidates = {*known, *(f"{SHM}/{name}" for name, stamp in stamps if stamp is not None and stamp[1] in ours)}
    candidates = {path for path in candidates if _is_leftover_kind(path)}
    if not candidates:
        return []
    used = set(_bound_sockets().values())
    for pid in process_table():
        used |= _mapped(pid)
    return sorted(candidates - used)


def remove(paths: Iterable[str]) -> list[str]:
    """Remove leftovers; returns those that could not be."""
    failed = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError:
            failed.append(path)
    return failed


def _is_leftover_kind(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if found.st_uid != os.geteuid():
        return False
    if os.path.dirname(path) == SHM:
        return stat.S_ISREG(found.st_mode) and _SHM_NAME.fullmatch(os.path.basename(path)) is not None
    return stat.S_ISSOCK(found.st_mode)


def _mapped(pid: int) -> set[str]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return set()
    if b"/dev/shm/" not in maps:
        return set()
    return {os.fsdecode(path) for path in _MAPPED.findall(maps) if not path.endswith(_DELETED)}


def _bound_sockets() -> dict[str, str]:
    """Socket files by inode, of all listening or connected ends that have one."""
    try:
        lines = Path("/proc/net/unix").read_bytes().splitlines()[1:]
    except OSError:
        return {}
    rows = (line.split(None, 7) for line in lines)
    return {row[6].decode(): os.fsdecode(row[7]) for row in rows if len(row) == 8 and row[7].startswith(b"/")}


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    for name in _listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def _listdir(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
