"""What specdeck did and knows by itself: launches, signals, ends, earlier runs."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Fact, Json
from tui.frozen import frozen


@frozen
class ProcessId:
    """A process for life; a pid alone may be a stranger's tomorrow. `start_ticks`: field 22 of /proc/<pid>/stat."""

    pid: int
    start_ticks: int
    boot_id: str


@frozen
class Launched(Fact):
    """A server was started (or adopted). `env` is the difference to the operator's environment, secrets masked."""

    run: str
    profile: str
    command: tuple[str, ...]
    knobs: Mapping[str, Json]
    env: Mapping[str, str] = field(default_factory=dict)
    server: ProcessId | None = None
    keeper: ProcessId | None = None
    url: str | None = None
    sglang_version: str | None = None
    rehearsal: bool = False


@frozen
class Attached(Fact):
    """Watching a server that somebody else started: by log, URL or pid."""

    target: str
    url: str | None = None


@frozen
class StateChange(Fact):
    """A transition of the state machine: stopped, starting, running, stopping, exited, failed, unknown."""

    state: str
    reason: str = ""


@frozen
class Signalled(Fact):
    """A signal was sent, by whom and to which pids."""

    signal: str
    pids: tuple[int, ...]
    why: str = ""


@frozen
class Exited(Fact):
    """The server process ended: exit `code`, or `signal` (name) that ended it."""

    code: int | None
    signal: str | None = None
    requested: bool = False  # an operator asked for it


@frozen
class Expectation(Fact):
    """How long each phase took in earlier runs of the same profile, seconds by `tui.snapshot.Phase` value."""

    run: str
    phases_s: Mapping[str, float]
    total_s: float | None = None


@frozen
class SpeedAt:
    """Throughput of one rank at one batch size, tokens per second: see `tui.sglang.economics.BatchSpeed`."""

    batch: int
    tok_s: float
    samples: int = 1
    low: float | None = None
    high: float | None = None
    accept_len: float | None = None
    context_tokens: float | None = None


@frozen
class PastSpeeds(Fact):
    """What an earlier run measured. `role`: "plain", the newest run of this model without speculation, or "baseline",
    the run that the operator pinned. Without speeds: there is none (any more)."""

    role: str
    run: str = ""
    speeds: tuple[SpeedAt, ...] = ()


@frozen
class Mark(Fact):
    """A moment worth a tick on the plot: a restart, a knob change, an operator's note."""

    text: str
