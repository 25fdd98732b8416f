"""The processes of a rehearsed server: real ones, so that trees, kills and stops are real, but with nothing in them."""

import contextlib
import ctypes
import os
import shutil
import signal
import time

_PR_SET_PDEATHSIG = 1


class Children:
    """Starts, watches and kills the children of this process. They die with it, as SGLang's do."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._sleep = shutil.which("sleep") or "/bin/sleep"

    def start(self, title: str, name: str) -> int:
        """A process that shows itself as `title`; `name` is what SGLang's watchdog calls it. Call before any thread."""
        pid = os.fork()
        if pid == 0:
            # Nothing of Python may run on in the child, whatever happens.
            try:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                # What a terminal or `timeout` sends to the whole group is for the main process to answer.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execv(self._sleep, [title, "2147483647"])
            finally:
                os._exit(127)
        self.names[pid] = name
        return pid

    def ended(self) -> list[tuple[int, str, int]]:
        """(pid, name, exit code) of those that ended since the last call; the code is negative for a signal."""
        found = []
        while self.names:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            name = self.names.pop(pid, None)
            if name is not None:
                found.append((pid, name, os.waitstatus_to_exitcode(status)))
        return found

    def kill(self) -> None:
        """SIGKILL to all that are left, and wait for them."""
        # A child that was not waited for keeps its pid, so nobody else's process can be hit.
        for pid in self.names:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while self.names and time.monotonic() < deadline:
            self.ended()
            time.sleep(0.002)
