"""The history: one folder per launch, no database. Files are appended to or replaced as a whole."""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from tui.errors import SpecdeckError
from tui.facts import Exited, Json, ProcessId
from tui.files import StoreError, read_json, store_error, write_atomically
from tui.frozen import frozen
from tui.patterns import lazy
from tui.procid import alive
from tui.runs.checks import to_time

STATE_DIR_VARIABLE = "SPECDECK_STATE_DIR"

_STAMP = "%Y-%m-%dT%H-%M-%S"
_RUN_NAME = lazy(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)_(.+?)(?:\+(\d{1,6}))?", re.DOTALL)
_UNSAFE = lazy(r"[^A-Za-z0-9._-]+")
_LONGEST_SLUG = 60
_ROOM_BYTES = 256 << 10  # what a launch writes of itself and its log's first pages


class RunNotFoundError(SpecdeckError):
    """No run has this name, or several do."""


@frozen(kw_only=False)
class Run:
    """One launch as its folder tells it. `damaged`: why the folder cannot be trusted; the rest is then unknown.

    `command`, `knobs` and `env` (the difference to the operator's environment) have their secrets masked. `tree` and
    `files` (shared memory, sockets) are what the keeper last saw the server hold. `ready_at`: it was proved ready then.
    """

    path: Path
    profile: str = ""
    profile_path: str | None = None
    started_at: float | None = None
    command: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    knobs: Mapping[str, Json] = field(default_factory=dict)
    url: str | None = None
    host: str | None = None
    port: int | None = None
    sglang_version: str | None = None
    rehearsal: bool = False
    adopted: bool = False
    server: ProcessId | None = None
    keeper: ProcessId | None = None
    tree: tuple[ProcessId, ...] = ()
    files: tuple[str, ...] = ()
    ready_at: float | None = None
    exited: Exited | None = None
    damaged: str | None = None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def log(self) -> Path:
        """What the server wrote, stdout and stderr. An adopted server's log is its own file, or nowhere."""
        return self.path / "server.log"

    @property
    def facts(self) -> Path:
        """The recording: facts as JSON lines."""
        return self.path / "facts.jsonl"

    @property
    def control(self) -> Path:
        """What the keeper did, as facts in JSON lines: launched, signals, state changes, the end."""
        return self.path / "control.jsonl"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def profile_copy(self) -> Path:
        """The profile as it was launched, knobs of this launch included, secrets masked."""
        return self.path / "profile.toml"

    @property
    def alive(self) -> bool:
        """Whether the server or its keeper still runs, by identity."""
        return alive(self.server) or alive(self.keeper)


class RunStore:
    """The runs of one state directory."""

    def __init__(self, root: Path | None = None) -> None:
        """`root`: the state directory; by default `state_dir()`. It is made, mode 0700, when a run is."""
        self.root = state_dir() if root is None else root
        self.folder = self.root / "runs"

    def create(self, profile: str, files: Mapping[str, str], at: float | None = None) -> Run:
        """A new run folder named after the local time and the profile; it appears with all `files` in it, or not.

        Raises StoreError.
        """
        self._prepare()
        stamp = time.strftime(_STAMP, time.localtime(at))
        slug = _UNSAFE.sub("-", profile).strip("-.")[:_LONGEST_SLUG] or "run"
        try:
            new = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))  # mode 0700
        except OSError as error:
            raise store_error(error, self.folder) from error
        try:
            for name, text in files.items():
                write_atomically(new / name, text)
            path = self._settle(new, f"{stamp}_{slug}")
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return self.load(path.name)

    def check_room(self) -> None:
        """Raises StoreError, as `create` would, where a new run could not be written now."""
        self._prepare()
        write_atomically(self.folder / ".room", " " * _ROOM_BYTES)
        with contextlib.suppress(OSError):
            os.unlink(self.folder / ".room")

    def names(self) -> list[str]:
        """Names of the run folders, newest first. Raises StoreError when the folder cannot be read."""
        try:
            entries = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"Cannot read {self.folder}: {error.strerror}.") from error
        return sorted(filter(_RUN_NAME.fullmatch, entries), key=_sort_key, reverse=True)

    def load(self, name: str) -> Run:
        """The run of this name. A folder that is broken or half-gone gives a Run that says so in `damaged`."""
        return load_run(self.folder / name)

    def runs(self, limit: int | None = None) -> list[Run]:
        """Newest first. Raises StoreError when the folder cannot be read."""
        runs = [self.load(name) for name in self.names()[:limit]]
        # The clock may have been set back (summer time), so what the runs say of themselves goes before their names.
        return sorted(runs, key=lambda run: run.started_at or stamp_time(run.name), reverse=True)

    def latest(self) -> Run | None:
        """The newest run that is not damaged."""
        return next((run for run in self.runs(limit=50) if run.damaged is None), None)

    def active(self) -> list[Run]:
        """Runs whose server or keeper still runs, by identity, newest first. Reads only the folders that may."""
        candidates = (name for name in self.names() if self._may_live(self.folder / name))
        return [run for run in map(self.load, candidates) if run.alive]

    def find(self, text: str) -> Run:
        """The one run whose name begins with `text`, or the newest whose profile does. Raises RunNotFoundError."""
        names = self.names()
        if text in names:
            return self.load(text)
        by_name = [name for name in names if name.startswith(text)]
        if len(by_name) == 1:
            return self.load(by_name[0])
        if by_name:
            shown = ", ".join(by_name[:3]) + (", …" if len(by_name) > 3 else "")
            raise RunNotFoundError(f"{len(by_name)} runs begin with {text!r} ({shown}): give more of the name.")
        by_profile = [name for name in names if _profile_of(name).startswith(text)]
        if by_profile:
            return self.load(by_profile[0])
        raise RunNotFoundError(f"No run begins with {text!r} in {self.folder}: `specdeck runs` lists them.")

    def _prepare(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if self.folder.stat().st_mode & 0o077:
                self.folder.chmod(0o700)
        except (FileExistsError, NotADirectoryError) as error:
            raise StoreError(
                f"{self.root} is not a folder: move that file away, or set {STATE_DIR_VARIABLE}."
            ) from error
        except OSError as error:
            raise store_error(error, self.folder) from error

    def _settle(self, new: Path, name: str) -> Path:
        """Give the finished folder its name; the next free number is added when it is taken ("+2")."""
        for number in range(1, 1_000_000):
            path = self.folder / (name if number == 1 else f"{name}+{number}")
            try:
                os.rename(new, path)  # refuses to replace a folder that holds anything
            except OSError as error:
                if path.exists():
                    continue
                raise store_error(error, path) from error
            return path
        raise StoreError(f"Too many runs named {name} in {self.folder}: remove some.")

    def _may_live(self, path: Path) -> bool:
        return not (path / "exit.json").exists() or (path / "keeper.sock").exists()


def state_dir() -> Path:
    """`SPECDECK_STATE_DIR`, else specdeck's folder under the XDG state directory. Makes nothing."""
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_state_path("specdeck")


def load_run(path: Path) -> Run:
    """What a run folder tells, without ever raising: see `Run.damaged`."""
    profile = _profile_of(path.name)
    try:
        command = read_json(path / "command.json")
        keeper = _optional(path / "keeper.json")
        ready = _optional(path / "ready.json")
        ended = _optional(path / "exit.json")
        return _run(path, profile, command, keeper, ready, ended)
    except FileNotFoundError:
        return Run(path, profile, damaged="command.json is missing" if path.is_dir() else "there is no such folder")
    except StoreError as error:
        return Run(path, profile, damaged=str(error).rstrip("."))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Run(path, profile, damaged=f"its files do not say what they should ({type(error).__name__}: {error})")


def process_json(process: ProcessId) -> dict[str, Json]:
    """An identity as keeper.json holds it."""
    return {"pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id}


def process_from_json(data: Json) -> ProcessId | None:
    """An identity from keeper.json; None for null. Raises KeyError, TypeError or ValueError."""
    if data is None:
        return None
    return ProcessId(pid=int(data["pid"]), start_ticks=int(data["start_ticks"]), boot_id=str(data["boot_id"]))


def _run(
    path: Path,
    profile: str,
    command: dict[str, Json],
    keeper: dict[str, Json],
    ready: dict[str, Json],
    ended: dict[str, Json],
) -> Run:
    return Run(
        path=path,
        profile=str(command.get("profile") or profile),
        profile_path=command.get("profile_path"),
        started_at=_time(command.get("started_at")),
        command=tuple(map(str, command["argv"])),
        cwd=command.get("cwd"),
        env={str(name): str(value) for name, value in command.get("env", {}).items()},
        knobs=dict(command.get("knobs", {})),
        url=command.get("url"),
        host=command.get("host"),
        port=None if command.get("port") is None else int(command["port"]),
        sglang_version=command.get("sglang_version"),
        rehearsal=bool(command.get("rehearsal", False)),
        adopted=bool(command.get("adopted", False)),
        server=process_from_json(keeper.get("server")),
        keeper=process_from_json(keeper.get("keeper")),
        tree=tuple(p for p in map(process_from_json, keeper.get("tree", ())) if p is not None),
        files=tuple(map(str, keeper.get("files", ()))),
        ready_at=_time(ready.get("at")),
        exited=_exited(ended) if ended else None,
    )


def _exited(ended: dict[str, Json]) -> Exited:
    return Exited(
        at=to_time(ended["at"]),
        code=None if ended.get("code") is None else int(ended["code"]),
        signal=ended.get("signal"),
        requested=bool(ended.get("requested", False)),
    )


def _optional(path: Path) -> dict[str, Json]:
    with contextlib.suppress(FileNotFoundError):
        return read_json(path)
    return {}


def _time(value: Json) -> float | None:
    return None if value is None else to_time(value)


def _profile_of(name: str) -> str:
    match = _RUN_NAME.fullmatch(name)
    return match[2] if match else name


def _sort_key(name: str) -> tuple[str, int, str]:
    match = _RUN_NAME.fullmatch(name)
    return ("", 0, name) if match is None else (match[1], int(match[3] or 1), name)


def stamp_time(name: str) -> float:
    """The time in a run's name, by this machine's time zone; 0 when there is none."""
    try:
        return time.mktime(time.strptime(name[:19], _STAMP))
    except (ValueError, OverflowError):
        return 0.0
