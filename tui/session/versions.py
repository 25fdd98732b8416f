"""Which SGLang is it: told by the server or the launch, else narrowed down by the form of its log lines."""

from tui.facts import Launched, VersionHint
from tui.sglang.versions import parse_version


class VersionFold:
    """`version` is what was told; hints only bound it."""

    def __init__(self) -> None:
        self.version: str | None = None
        self._least: str | None = None
        self._most: str | None = None

    def launched(self, fact: Launched) -> None:
        if self.version is None:
            self.version = fact.sglang_version

    def told(self, version: str | None) -> None:
        """The server itself said so: this beats the profile's word."""
        if version:
            self.version = version

    def hint(self, fact: VersionHint) -> None:
        if fact.at_least and (self._least is None or _key(fact.at_least) > _key(self._least)):
            self._least = fact.at_least
        if fact.at_most and (self._most is None or _key(fact.at_most) < _key(self._most)):
            self._most = fact.at_most

    def note(self) -> str:
        """Words for the status line when no version was told."""
        if self.version is not None or (self._least is None and self._most is None):
            return ""
        if self._least and self._most:
            span = self._least if self._least == self._most else f"{self._least}–{self._most}"
        else:
            span = f"{self._least} or later" if self._least else f"{self._most} or earlier"
        return f"{span}, by the form of the log"

    def draft_outside_fraction(self) -> bool:
        """SGLang <= 0.5.13 pays the draft from the slack: `ModelRunner.initialize` loads it after the pool."""
        known = self.version or self._most
        parsed = parse_version(known) if known else None
        return parsed is not None and parsed.before(0, 5, 14)


def _key(version: str) -> tuple[int, ...]:
    parsed = parse_version(version)
    return parsed.release if parsed else ()
