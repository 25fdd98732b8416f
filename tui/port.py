"""What the app needs from the rest of specdeck. The app knows nothing else: no server, no GPU, no profile."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tui.snapshot import GpuBar, Snapshot


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """A profile that may be launched; `problem` says why it may not."""

    name: str
    path: str = ""
    description: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FlagInfo:
    """A launch flag as the knob editor sees it. `type`: "int", "float", "str", "bool" or "choice"."""

    name: str
    type: str = "str"
    choices: tuple[str, ...] = ()
    default: Any = None
    help: str = ""
    group: str = ""


class Forecast(Protocol):
    """What a launch with other knobs would do. `fits` None: cannot tell; `verdict` is a sentence."""

    @property
    def bars(self) -> tuple[GpuBar, ...]: ...
    @property
    def verdict(self) -> str: ...
    @property
    def fits(self) -> bool | None: ...


class LogView(Protocol):
    """The log that the log pane shows. Another object means another log is followed.

    `index`: the lines of the file that has the log's name now, None before there is one. After a rotation it is another
    object, and `lines_before` counts the lines of the files before it, so that numbers agree with the facts' `line`.
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

    @property
    def log(self) -> LogView | None:
        """Another object means that another log is followed."""
        ...

    async def run(self, on_snapshot: Callable[[Snapshot], None]) -> None:
        """Until cancelled, call `on_snapshot` on the event loop, about 1-4 times a second and at once on great news."""
        ...

    def profiles(self) -> tuple[ProfileChoice, ...]:
        """The profiles that the launch dialog offers."""
        ...

    def flags(self) -> tuple[FlagInfo, ...]:
        """The flags that the knob editor offers."""
        ...

    async def forecast(self, knobs: Mapping[str, object]) -> Forecast | None:
        """What a restart with these knobs changed would do; None when nothing can be said. A value of None removes."""
        ...

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        """Start a server; a sentence when it could not be started."""
        ...

    def stop(self, grace_s: float) -> AsyncIterator[str]:
        """Stop the server, telling each visible step in words."""
        ...

    def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[str]:
        """Stop, wait for the memory, launch with these knobs changed, telling each visible step in words."""
        ...
