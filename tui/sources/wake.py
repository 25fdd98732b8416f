"""Wake the log reader early. Only a hint: the reader's own look at the file (`LogFollower.poll`) is the truth.

The file's directory is watched, never the file itself: a watch on a file dies with the first rotation. Where the kernel
does not tell of other hosts' writes (network file systems), and where watching fails, a short tick takes its place.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

TICK_S = 1.0
"""Longest time between two wake-ups where the kernel tells of changes."""
POLL_S = 0.1
"""The same where it does not."""
STEP_MS = 40
"""How often watchfiles gathers events, of which each look costs CPU: 10 ms is 0.6 % of a core, 20 ms 0.4 %."""
DEBOUNCE_MS = 50
STREAM_S, PAUSE_S = 0.3, 0.1
"""After changes so close to each other the next ones are waited for, as each look costs the same."""

REMOTE_TYPES = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
    *("nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
}


def file_system_type(path: str, mountinfo: str) -> str | None:
    """Type of the file system that holds the absolute, resolved `path`, from the text of /proc/self/mountinfo."""
    best, found = -1, None
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not rest:
            continue
        point = _unescape(parts[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # The later of two mounts on one point hides the earlier.
        if inside and len(point) >= best:
            best, found = len(point), rest.split(" ", 1)[0]
    return found


def is_remote(fs_type: str | None) -> bool:
    """Whether changes on such a file system can happen without the kernel telling. Unknown types are taken as local."""
    return fs_type is not None and (fs_type in REMOTE_TYPES or fs_type.startswith("fuse."))


def needs_polling(directory: Path) -> bool:
    """Whether `directory` has to be polled; also when the environment's WATCHFILES_FORCE_POLLING says so."""
    forced = os.environ.get("WATCHFILES_FORCE_POLLING", "")
    if forced:
        return forced.lower() not in {"false", "disable", "disabled"}
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return True
    return is_remote(file_system_type(os.path.realpath(directory), mountinfo))


async def wake_ups(
    path: Path, stop: asyncio.Event, *, tick_s: float = TICK_S, poll_s: float = POLL_S, step_ms: int = STEP_MS
) -> AsyncGenerator[None]:
    """Yield at once, then whenever something may have happened to the file `path`, and after `tick_s` at the latest.

    Neither the file nor its directory need exist. Of a symbolic link both the link and what it leads to are watched.
    Ends when `stop` is set. Wake-ups during the consumer's work are merged into one. A consumer that leaves the loop
    early closes the iterator (`contextlib.aclosing`).
    """
    changed = asyncio.Event()
    watch = _Watch(path, changed, step_ms)
    stopped = asyncio.create_task(stop.wait())
    stopped.add_done_callback(lambda _: changed.set())
    clock = asyncio.get_running_loop().time
    renewed_at = -tick_s
    try:
        while not stop.is_set():
            if clock() - renewed_at >= tick_s:
                await watch.renew()
                renewed_at = clock()
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(tick_s if watch.is_watching else min(poll_s, tick_s)):
                    await changed.wait()
            changed.clear()
    finally:
        stopped.cancel()
        await watch.close()


class _Watch:
    """The watch on the directories of one file, begun anew when one of them is made, moved or replaced."""

    def __init__(self, path: Path, changed: asyncio.Event, step_ms: int) -> None:
        self._path = path
        self._changed = changed
        self._step_ms = step_ms
        self._directories: dict[Path, tuple[int, int]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ending: list[threading.Thread] = []

    @property
    def is_watching(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    async def renew(self) -> None:
        """Watch the directories that are there now. Cheap when nothing changed."""
        # In a thread, because looking at a file system whose server is gone can hang.
        names, directories, polled = await asyncio.to_thread(self._look)
        if directories == self._directories:
            return
        self._end()
        self._directories = directories
        if directories and not polled:
            self._stop = threading.Event()
            told = (list(directories), names, self._stop, asyncio.get_running_loop())
            self._thread = threading.Thread(target=self._run, args=told, name="wake", daemon=True)
            self._thread.start()

    def _look(self) -> tuple[set[str], dict[Path, tuple[int, int]], bool]:
        paths = (self._path, Path(os.path.realpath(self._path)))
        directories = {path.parent: found for path in paths if (found := _identity(path.parent))}
        polled = directories != self._directories and any(map(needs_polling, directories))
        return {path.name for path in paths}, directories, polled

    async def close(self) -> None:
        self._end()
        for thread in self._ending:
            await asyncio.to_thread(thread.join)

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._ending = [thread for thread in (*self._ending, self._thread) if thread.is_alive()]
            self._thread = None

    def _run(
        self, directories: list[Path], names: set[str], stop: threading.Event, loop: asyncio.AbstractEventLoop
    ) -> None:
        """On a thread of its own: `awatch` asks a task, a thread and the loop four times for each event."""
        # Imported here: nothing that only starts up should pay for it.
        from watchfiles import watch

        # Out of inotify watches or instances, no permission, gone meanwhile: then the ticks alone wake the reader.
        now = 0.0
        with suppress(OSError, RuntimeError):
            for _ in watch(
                *directories,
                watch_filter=lambda _change, changed: os.path.basename(changed) in names,
                debounce=DEBOUNCE_MS,
                step=self._step_ms,
                stop_event=stop,
                raise_interrupt=False,
                recursive=False,
                force_polling=False,
            ):
                if not self._changed.is_set():  # else it is known, and whoever reads is not ready for it
                    loop.call_soon_threadsafe(self._changed.set)
                before, now = now, time.monotonic()
                if now - before < STREAM_S:
                    stop.wait(PAUSE_S)


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unescape(field: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
