"""What a rehearsal server writes, and how its time passes."""

import os
import threading
import time
from collections.abc import Callable

from tui.rehearsal.launch import Rank
from tui.rehearsal.logforms import LogForms

_SLICE_S = 0.02


class Console:
    """Log records to stdout, progress bars to stderr, each in one write so that no two mix inside a line.

    Stamps are the wall clock's, whatever the speed: who reads the log compares them with now.
    """

    def __init__(self, forms: LogForms) -> None:
        self._forms = forms
        self._lock = threading.Lock()

    def log(self, message: str, rank: Rank | None = None) -> None:
        """One record; it may have several lines."""
        self._write(1, self._forms.stamped(message, rank, time.time()) + "\n")

    def bar(self, text: str, last: bool = False) -> None:
        """A bar redrawn over itself, as tqdm does; records that come between are glued behind it."""
        self._write(2, f"\r{text}" + ("\n" if last else ""))

    def plain(self, text: str) -> None:
        """Unstamped text on stderr."""
        self._write(2, text + "\n")

    def _write(self, descriptor: int, text: str) -> None:
        data = text.encode()
        with self._lock:
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            except OSError:
                return  # nobody reads any more


class Clock:
    """Simulated time: `speed` simulated seconds pass in a real one. `watch` is called every 20 ms of a wait."""

    def __init__(self, speed: float, watch: Callable[[], None]) -> None:
        self.speed = speed
        self._watch = watch

    def sleep(self, seconds: float) -> None:
        """Let simulated seconds pass. Whatever `watch` raises goes through."""
        end = time.monotonic() + seconds / self.speed
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_S))
            self._watch()
        self._watch()
