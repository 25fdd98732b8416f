"""Writes the recording of a run while somebody watches it. One dashboard at a time; a killed one loses a second."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui.errors import SpecdeckError
from tui.factlines import dump_fact
from tui.facts import Exited, Fact, LogFact, LogTail, ServerReady
from tui.files import StoreError, append_lines
from tui.runs import recording
from tui.runs.deltas import Deltas
from tui.runs.recording import JOURNAL, LOG_ENDS

FLUSH_S = 1.0
_LOCK = ".recorder.lock"
_TRY_S = 5.0

Summarise = Callable[[Path], object]


class Recorder:
    """Appends the facts of one run to its folder. Never raises while it records: `problem` says what went wrong.

    `record` is called with every batch in the order in which it was folded, from one thread. A second dashboard's
    recorder waits until the first one lets go. `summarise(folder)` is called when the server is ready and at the end;
    by default `tui.runs.summaries.write`.
    """

    def __init__(
        self,
        folder: Path,
        summarise: Summarise | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.problem: str | None = None
        self._summarise = summarise
        self._clock = clock
        self._lock: int | None = None
        self._tried_at: float | None = None
        self._flushed_at = clock()
        self._pending: list[str] = []
        self._deltas = Deltas()
        self._journal: set[str] = set()
        self._lines = 0
        self._log_kept = True
        self._ended = False
        self._closed = False

    @property
    def recording(self) -> bool:
        """Whether this recorder is the one that writes."""
        return self._lock is not None

    def record(self, facts: Sequence[Fact]) -> None:
        """Take a batch. Written within a second, at once when the server got ready or ended."""
        if self._closed or not self._take():
            return
        great = False
        tail = max((place for place, fact in enumerate(facts) if isinstance(fact, LogTail)), default=-1)
        read = max((fact.lines for fact in facts if isinstance(fact, LogTail)), default=self._lines)
        ends = False
        for place, fact in enumerate(facts):
            if isinstance(fact, LogFact) and self._log_kept:
                great = great or isinstance(fact, ServerReady)
                ends = ends or place > tail  # told without having read on: the reader gave up waiting
                if place < tail and fact.line > read >= self._lines:
                    self._append(fact)  # of a line that is not finished: a bar as it stood at that moment
                continue
            if self._known(fact):
                continue
            self._append(fact)
            if isinstance(fact, Exited):
                self._ended = great = True
        if ends:
            self._pending.append(json.dumps({"mark": LOG_ENDS}))
        if great or self._clock() - self._flushed_at >= FLUSH_S:
            self._flush()
        if great and not self._ended:
            self._summary()

    def tick(self) -> None:
        """Write what waits, for a caller with a clock: call it each second when no facts come."""
        if self._lock is not None and self._pending:
            self._flush()

    def close(self) -> None:
        """Write what waits and let go. When the run has ended, it is packed and its summary written."""
        if self._closed:
            return
        self._closed = True
        if self._lock is None:
            return
        self._flush()
        try:
            if (self._ended or (self.folder / "exit.json").exists()) and self.problem is None:
                recording.pack(self.folder)
                self._summary()
        except SpecdeckError as error:
            self.problem = str(error)
        finally:
            os.close(self._lock)
            self._lock = None

    def _append(self, fact: Fact) -> None:
        line = self._deltas.encode(json.loads(dump_fact(fact)))
        self._pending.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))

    def _known(self, fact: Fact) -> bool:
        """A dashboard that opens a run in the middle hears its journal and its log from the beginning again."""
        if isinstance(fact, JOURNAL):
            line = dump_fact(fact)
            if line in self._journal:
                return True
            self._journal.add(line)
        elif isinstance(fact, LogTail) and self._log_kept and fact.reset is None:
            if fact.lines < self._lines:
                return True
            self._lines = fact.lines
        return False

    def _take(self) -> bool:
        """Become the one writer, if nobody is."""
        if self._lock is not None:
            return True
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < _TRY_S:
            return False
        self._tried_at = now
        if not self.folder.is_dir() or (self.folder / recording.PACKED).exists():
            return False
        try:
            self._lock = _locked(self.folder / _LOCK)
            if self._lock is not None:
                self._begin()
        except (OSError, SpecdeckError) as error:
            self.problem = f"{self.folder.name} is not recorded: {error}"
            self._let_go()
        return self._lock is not None

    def _begin(self) -> None:
        path = self.folder / recording.NAME
        if not path.exists() or path.stat().st_size == 0:
            self._log_kept = (self.folder / "server.log").exists()
            append_lines(path, [json.dumps(recording.header(self._log_kept))])
            return
        self._log_kept = recording.log_is_beside(self.folder)
        _mend(path)
        for line in recording.read(self.folder):
            if isinstance(line.entry, LogTail):
                self._lines = line.entry.lines
            elif isinstance(line.entry, JOURNAL):
                self._journal.add(dump_fact(line.entry))

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        if not self._pending:
            return
        try:
            append_lines(self.folder / recording.NAME, self._pending)
            self.problem = None
        except StoreError as error:
            self.problem = str(error)
            self._deltas = Deltas()  # the lost lines are a gap: what follows must not lean on them
        self._pending = []

    def _summary(self) -> None:
        from tui.runs import summaries

        try:
            (self._summarise or summaries.write)(self.folder)
        except SpecdeckError as error:
            self.problem = str(error)

    def _let_go(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock, None while somebody else does; the kernel frees it with its process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    return handle


def _mend(path: Path) -> None:
    """A last line without its end, of a dashboard that was killed, is cut off before more is appended."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        back = 0
        while back < size:
            back = min(size, back + 65536)
            file.seek(size - back)
            found = file.read(min(back, 65536)).rfind(b"\n")
            if found >= 0:
                file.truncate(size - back + found + 1)
                return
        file.truncate(0)
