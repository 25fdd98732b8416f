"""A state directory for one demo: what is played leaves no trace among the operator's runs.

Whatever way the demo ends (left, killed, its terminal gone), a second process notices by a pipe that closes, ends what
still runs in the directory and removes it. `python -m tui.commands.demostore FOLDER` is that process.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tui.errors import SpecdeckError
from tui.procid import boot_id, process_stat
from tui.runs.store import RunStore
from tui.server.stopping import kill

PREFIX = "specdeck-demo-"
# The folder's name tells whose it is: pid, start time, and where that pid counts (this boot, this container).
_OWNED = re.compile(rf"{PREFIX}(?P<pid>\d+)-(?P<ticks>\d+)-(?P<where>[0-9a-f]+)-\w+")
_CLEAR_ROUNDS, _CLEAR_PAUSE_S = 20, 0.25
_LEAVE_LIMIT_S = 30.0


@contextmanager
def demo_store() -> Iterator[RunStore]:
    """A store of its own, gone with everything that still runs in it. SPECDECK_STATE_DIR keeps it instead."""
    if kept():
        yield RunStore()
        return
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{_start_ticks(os.getpid())}-{_where()}-"))
    words = [sys.executable, "-m", "tui.commands.demostore", str(root)]
    quiet = subprocess.DEVNULL
    cleaner = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield RunStore(root)
    finally:
        assert cleaner.stdin is not None
        cleaner.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            cleaner.wait(_LEAVE_LIMIT_S)


def kept() -> bool:
    """Whether a state directory was named: then what a demo leaves is the operator's."""
    return bool(os.environ.get("SPECDECK_STATE_DIR"))


def clear(root: Path) -> None:
    """End every server that runs in this store, by its identity, and remove the folder."""
    store = RunStore(root)
    for _ in range(_CLEAR_ROUNDS):
        with contextlib.suppress(SpecdeckError, OSError):
            for run in store.active():
                for _ in kill(run, "the demo ended"):
                    pass
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(_CLEAR_PAUSE_S)  # a launch that was under way when the demo ended


def sweep() -> None:
    """Clear what demos have left whose second process was killed too."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owned = _OWNED.fullmatch(path.name)
        if owned is None or owned["where"] != _where() or not _is_own_folder(path):
            continue
        if _start_ticks(int(owned["pid"])) != int(owned["ticks"]):
            clear(path)


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _start_ticks(pid: int) -> int | None:
    """When a process started; None when it does not run."""
    found = process_stat(pid)
    return None if found is None or found.dead else found.start_ticks


def _where() -> str:
    """Where pids have this meaning: the boot and the pid namespace, in hexadecimal digits."""
    try:
        namespace = int(re.sub(r"\D", "", os.readlink("/proc/self/ns/pid")))
    except (OSError, ValueError):
        namespace = 0
    return f"{boot_id().replace('-', '')[:12]}{namespace:x}"


def main(root: Path) -> None:
    """Sweep once, wait for the demo's end, clear up."""
    os.chdir("/")
    sweep()
    sys.stdin.buffer.read()
    clear(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
