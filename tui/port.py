"""What the app needs from the rest of specdeck. The app knows nothing else: no server, no GPU, no profile."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from tui.frozen import frozen
from tui.snapshot import GpuBar, Snapshot


@frozen(kw_only=False)
class ProfileChoice:
    """A profile that may be launched; `problem` says why it may not."""

    name: str
    path: str = ""
    description: str = ""
    problem: str | None = None


@frozen(kw_only=False)
class FlagInfo:
    """A launch flag as the knob editor sees it. `type`: bool, int, float, str, json, or size ("4k").

    `many`: takes several values. `optional_value`: may stand without one.
    """

    name: str
    type: str = "str"
    choices: tuple[str, ...] = ()
    default: Any = None
    help: str = ""
    group: str = ""
    many: bool = False
    optional_value: bool = False


class Finding(Protocol):
    """Something that stands against a launch. `severity` "error": it would fail. `fix` begins in lower case."""

    @property
    def severity(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def fix(self) -> str: ...


class Told(str):
    """One visible step of control, in words. `kind`: "note", "waiting" (`left_s` until SIGKILL), "problem" or "done".

    The last one is "done"; `ok` tells whether everything is as it should be.
    """

    kind: str
    left_s: float | None
    ok: bool

    def __new__(cls, text: str, kind: str = "note", left_s: float | None = None, ok: bool = True) -> "Told":
        told = super().__new__(cls, text)
        told.kind, told.left_s, told.ok = kind, left_s, ok
        return told


@frozen(kw_only=False)
class SeenServer:
    """An SGLang server on this machine, whoever started it. `ours`: the run by which specdeck knows it."""

    pid: int
    title: str
    url: str
    ranks: int = 0
    command: str = ""
    log: str = ""
    ours: str = ""
    rehearsal: bool = False


class Forecast(Protocol):
    """What a launch with other knobs would do. `fits` None: cannot tell; `verdict` is a sentence.

    `fraction_formula`: how SGLang chooses mem-fraction-static, with its numbers; empty where it is set. `suggestion`:
    the knobs that `verdict` says to try; empty where it fits.
    """

    @property
    def bars(self) -> tuple[GpuBar, ...]: ...
    @property
    def verdict(self) -> str: ...
    @property
    def fits(self) -> bool | None: ...
    @property
    def kv_tokens(self) -> int | None: ...
    @property
    def fraction_formula(self) -> str: ...
    @property
    def suggestion(self) -> Mapping[str, object]: ...


@frozen
class RunRow:
    """One run of the history. `damaged`: why nothing is known of it. Sizes are GiB of the tightest rank.

    `changed`: the knobs against the run before of the same profile, in words; `speeds`: (batch size, typical tok/s).
    """

    name: str
    profile: str = ""
    started_at: float | None = None
    outcome: str = ""
    verdict: str = ""
    changed: str = ""
    algorithm: str | None = None
    ready_s: float | None = None
    kv_tokens: int | None = None
    free_gib: float | None = None
    best_tok_s: float | None = None
    speeds: tuple[tuple[int, float], ...] = ()
    accept_len: float | None = None
    note: str = ""
    baseline: bool = False
    alive: bool = False
    damaged: str | None = None
    knobs: str = ""


@frozen
class RunComparison:
    """Runs side by side against the first of them. Each tuple of values has one for each of `runs`.

    `bars`: the memory of the tightest rank, one bar for each run; the other texts are sentences.
    """

    runs: tuple[str, ...]
    outcomes: tuple[str, ...]
    knobs: tuple[tuple[str, tuple[str, ...]], ...]
    bars: tuple[GpuBar, ...]
    kv_tokens: tuple[int | None, ...]
    speeds: tuple[str, ...]
    economy: tuple[str, ...]
    ready: str


@frozen
class SweepRow:
    """One case of a sweep. `state`: "planned", "will be skipped", "running", "done", "failed", "skipped".

    `words`: what it does now, what the plan says of it, or why it failed; `place`: 1 is the fastest; `speeds`: tok/s,
    one for each of the sweep's workloads; `share`: its speed by the fastest's; `case`: all its knobs, in words.
    """

    title: str
    state: str
    words: str = ""
    place: int | None = None
    kv_tokens: int | None = None
    free_gib: float | None = None
    ready_s: float | None = None
    speeds: tuple[float | None, ...] = ()
    accept_len: float | None = None
    share: float | None = None
    run: str | None = None
    seconds: float | None = None
    case: str = ""


@frozen
class SweepView:
    """A sweep as it stands. `state`: "running", "interrupted", "finished", "damaged" (`problem` says why).

    `rows` are in the order in which they are tried. `left_s` None: not known yet. `best` and `economy`: sentences.
    """

    name: str
    state: str
    rows: tuple[SweepRow, ...] = ()
    workloads: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    left_s: float | None = None
    budget_s: float | None = None
    best: str = ""
    economy: tuple[str, ...] = ()
    saved: str = ""
    rehearsal: bool = False
    problem: str = ""


class Sweeps(Protocol):
    """The sweeps of the state directory. They run in a process of their own, whatever becomes of the screen."""

    async def names(self) -> tuple[str, ...]:
        """Newest first. Raises SpecdeckError when the folder cannot be read."""
        ...

    async def view(self, name: str) -> SweepView:
        """One as it stands now."""
        ...

    async def cancel(self, name: str) -> str | None:
        """Ask the one that runs to stop its server and end; a sentence when it could not be asked."""
        ...

    async def resume(self, name: str) -> str | None:
        """Go on with an interrupted one in the background; a sentence when it could not be started."""
        ...


class History(Protocol):
    """The runs of the past. Nothing here blocks the event loop; failures are sentences."""

    @property
    def sweeps(self) -> Sweeps:
        """What was tried unattended."""
        ...

    async def runs(self, limit: int | None = None) -> tuple[RunRow, ...]:
        """Every run, or the newest `limit`, newest first. Raises SpecdeckError when the folder cannot be read."""
        ...

    async def details(self, name: str) -> str:
        """All that is known of one run, as lines."""
        ...

    async def pin(self, name: str, baseline: bool) -> str | None:
        """Make a run the baseline of its model, or none any more; a sentence when it failed."""
        ...

    async def annotate(self, name: str, text: str) -> str | None:
        """Replace the note of a run; a sentence when it failed."""
        ...

    async def delete(self, name: str) -> str | None:
        """Remove a run for good; a sentence when it failed."""
        ...

    async def compare(self, names: Sequence[str]) -> RunComparison | str:
        """Runs side by side, one alone against the baseline; a sentence when they cannot be compared."""
        ...

    def replay(self, name: str) -> "Feed":
        """A feed that plays a run again; its `playback` is there."""
        ...


@frozen
class Place:
    """A place of a recording to jump to. `at_s`: seconds after its start; `kind`: "phase", "mark" or "crash"."""

    at_s: float
    kind: str
    name: str


class Playback(Protocol):
    """How a recording is played."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Phases, marks and crashes, in order; empty until the recording is read."""
        ...

    def pause(self, paused: bool | None = None) -> bool:
        """Pause or go on; without an argument the other of the two. Returns whether it is paused now."""
        ...

    def faster(self, factor: float) -> float:
        """Multiply the speed, between 1 and 1000. Returns the new one."""
        ...

    async def step(self, forward: bool = True) -> None:
        """One moment on, or back, paused."""
        ...

    async def seek(self, where: str) -> str | None:
        """To "90%", "+12:30", "45s" or the name of a place; a sentence when there is no such place."""
        ...

    async def jump(self, forward: bool = True) -> str | None:
        """To the next, or the previous, place; its name, None where there is none."""
        ...


class LogView(Protocol):
    """The log that the log pane shows. Another object means another log is followed.

    `index`: the lines of the file that has the log's name now, None before there is one. After a rotation it is another
    object, and `lines_before` counts the lines of the files before it, so that numbers agree with the facts' `line`.
    One that has `listen(heard)` calls `heard` on the event loop whenever it was read; others are looked at.
    """

    @property
    def index(self) -> Any: ...
    @property
    def lines_before(self) -> int: ...


class Feed(Protocol):
    """The stream behind the screen, live, recorded or rehearsed. Knobs are flag names without the dashes."""

    snapshot: Snapshot
    read_only: bool
    greeting: str
    """Said once when the screen opens, and then emptied."""
    caption: str
    """What a story tells now; empty where none is told."""
    leaving: str
    """What becomes of a server that was launched here when the screen is left, in a sentence."""

    @property
    def log(self) -> LogView | None:
        """Another object means that another log is followed."""
        ...

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        """Until cancelled, call `on_snapshot` on the event loop, about 1-4 times a second and at once on great news."""
        ...

    @property
    def playback(self) -> Playback | None:
        """What plays the recording; None of a living server."""
        ...

    @property
    def history(self) -> History | None:
        """The runs that the runs screen shows; None where there is no state directory."""
        ...

    def profiles(self) -> tuple[ProfileChoice, ...]:
        """The profiles that the launch dialog offers."""
        ...

    def flags(self) -> tuple[FlagInfo, ...]:
        """The flags that the knob editor offers."""
        ...

    @property
    def owner(self) -> str:
        """Who else controls the server on the screen, in words; empty when nobody does."""
        ...

    async def forecast(self, knobs: Mapping[str, object]) -> Forecast | None:
        """What a restart with these knobs changed would do; None when nothing can be said. A value of None removes."""
        ...

    async def forecast_launch(self, profile: str, knobs: Mapping[str, object]) -> Forecast | None:
        """What launching a profile with these knobs changed would do."""
        ...

    async def preflight(self, profile: str | None, knobs: Mapping[str, object]) -> tuple[Finding, ...]:
        """What stands against launching a profile, or with None against a restart, with these knobs changed."""
        ...

    async def command(self, knobs: Mapping[str, object]) -> str:
        """The shell command of a restart with these knobs changed, secrets as variables. Raises SpecdeckError."""
        ...

    async def save_profile(self, name: str, knobs: Mapping[str, object]) -> str:
        """Write these knobs to the profile on the screen, comments kept, or to a new one called `name`; the path.

        Raises SpecdeckError.
        """
        ...

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        """Start a server; a sentence when it could not be started."""
        ...

    def stop(self, grace_s: float) -> AsyncIterator[Told]:
        """Stop the server, telling each visible step."""
        ...

    def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[Told]:
        """Stop, wait for the memory, launch with these knobs changed, telling each visible step.

        Closing the iterator between two steps cancels what is still to come.
        """
        ...

    async def kill(self) -> str | None:
        """SIGKILL to the server's processes at once, ending a countdown; a sentence when it could not be done."""
        ...

    async def back_to(self) -> str | None:
        """The last run that reached ready, to which `go_back` goes back."""
        ...

    def go_back(self) -> AsyncIterator[Told]:
        """Launch the last profile that reached ready, with the knobs it had then."""
        ...

    async def discover(self) -> tuple[SeenServer, ...]:
        """The SGLang servers that run on this machine."""
        ...

    async def attach(self, pid: int) -> str | None:
        """Watch another server of this machine, everything but control; a sentence when it cannot be."""
        ...

    async def adopt(self, pid: int) -> str | None:
        """Take over a server that somebody started by hand; a sentence when it cannot be. Nothing is signalled."""
        ...
