"""The sweeps of a state directory as the screen asks for them: `tui.port.Sweeps`, in worker threads."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from tui.errors import SpecdeckError
from tui.files import StoreError
from tui.port import SweepView
from tui.runs.runtext import plain
from tui.runs.store import STATE_DIR_VARIABLE, RunStore
from tui.runs.sweeplock import running
from tui.runs.sweepplan import SweepError
from tui.runs.sweepstate import SweepStore
from tui.runs.sweepview import view_of

_BEGINS_S = 20.0
_LOOK_S = 0.1


class SweepRoom:
    """What is done to a sweep is asked of the process that runs it."""

    def __init__(self, store: RunStore) -> None:
        self._root = store.root
        self._sweeps = SweepStore(store.root)

    async def names(self) -> tuple[str, ...]:
        return tuple(await asyncio.to_thread(self._sweeps.names))

    async def view(self, name: str) -> SweepView:
        return await asyncio.to_thread(self._view, name)

    async def cancel(self, name: str) -> str | None:
        try:
            return await asyncio.to_thread(self._cancel, name)
        except SpecdeckError as error:
            return str(error)

    async def resume(self, name: str) -> str | None:
        try:
            await asyncio.to_thread(begin, self._root, name)
        except SpecdeckError as error:
            return str(error)
        return None

    def _view(self, name: str) -> SweepView:
        try:
            sweep = self._sweeps.load(name)
        except SweepError as error:
            return SweepView(name=name, state="damaged", problem=str(error))
        return view_of(sweep, time.time(), running(self._sweeps.folder) == name)

    def _cancel(self, name: str) -> str | None:
        if running(self._sweeps.folder) != name:
            return f"The sweep {name} is not running."
        self._sweeps.cancel(name)
        return None


def begin(root: Path, name: str) -> None:
    """Run a sweep, from where it is, in a session of its own: no terminal, and no dashboard's end, ends it.

    Returns when it has begun. Raises SweepError when it did not, and StoreError.
    """
    store = SweepStore(root)
    sweep = store.load(name)
    if sweep.finished:
        raise SweepError(f"The sweep {name} is finished.")
    if (other := running(store.folder)) is not None:
        raise SweepError(f"The sweep {other} is running: only one runs at a time.")
    log = store.log(name)
    cwd = sweep.options.get("cwd")
    try:
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb") as out:
            before = out.tell()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tui", "sweep", "--resume", name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, STATE_DIR_VARIABLE: str(root)},
                cwd=cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None,
                start_new_session=True,
            )
    except OSError as error:
        raise StoreError(f"The sweep {name} cannot be started: {error.strerror or error}.") from error
    threading.Thread(target=process.wait, name="reap", daemon=True).start()
    _wait_for(process, store, name, before)


def _wait_for(process: "subprocess.Popen[bytes]", store: SweepStore, name: str, before: int) -> None:
    until = time.monotonic() + _BEGINS_S
    while running(store.folder) != name:
        if process.returncode is not None:
            if store.load(name).finished:
                return
            raise SweepError(_last_words(store.log(name), before) or f"The sweep {name} ended at once.")
        if time.monotonic() > until:
            raise SweepError(f"The sweep {name} has not begun after {_BEGINS_S:.0f} s; {store.log(name)} may tell why.")
        time.sleep(_LOOK_S)


def _last_words(log: Path, before: int) -> str:
    """The last line that it wrote."""
    try:
        text = log.read_bytes()[before:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1].removeprefix("specdeck sweep: "))[:500] if lines else ""
