"""The control of a feed that has none: a recording starts, stops and changes nothing."""

from collections.abc import AsyncIterator, Mapping

from tui.errors import SpecdeckError
from tui.port import Finding, FlagInfo, Forecast, ProfileChoice, SeenServer, Told

NOTHING = "A replay starts and stops nothing."


class NothingToControlError(SpecdeckError):
    """Asked of a recording."""


class NoControl:
    """The part of `tui.port.Feed` that controls a server, refusing with a sentence."""

    refusal = NOTHING
    owner = ""
    caption = ""
    leaving = "A server that runs stays."

    def profiles(self) -> tuple[ProfileChoice, ...]:
        return ()

    def flags(self) -> tuple[FlagInfo, ...]:
        return ()

    async def forecast(self, knobs: Mapping[str, object]) -> Forecast | None:
        return None

    async def forecast_launch(self, profile: str, knobs: Mapping[str, object]) -> Forecast | None:
        return None

    async def preflight(self, profile: str | None, knobs: Mapping[str, object]) -> tuple[Finding, ...]:
        return ()

    async def command(self, knobs: Mapping[str, object]) -> str:
        raise NothingToControlError(self.refusal)

    async def save_profile(self, name: str, knobs: Mapping[str, object]) -> str:
        raise NothingToControlError(self.refusal)

    async def launch(self, profile: str, knobs: Mapping[str, object]) -> str | None:
        return self.refusal

    async def stop(self, grace_s: float) -> AsyncIterator[Told]:
        yield Told(self.refusal, "done", ok=False)

    async def restart(self, knobs: Mapping[str, object]) -> AsyncIterator[Told]:
        yield Told(self.refusal, "done", ok=False)

    async def go_back(self) -> AsyncIterator[Told]:
        yield Told(self.refusal, "done", ok=False)

    async def kill(self) -> str | None:
        return self.refusal

    async def back_to(self) -> str | None:
        return None

    async def discover(self) -> tuple[SeenServer, ...]:
        return ()

    async def attach(self, pid: int) -> str | None:
        return self.refusal

    async def adopt(self, pid: int) -> str | None:
        return self.refusal
