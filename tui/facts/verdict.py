"""What is wrong, and what to change."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Json
from tui.frozen import frozen


@frozen
class Evidence:
    """A log line that speaks for the verdict."""

    line: int
    text: str


@frozen
class Fix:
    """A change of one knob. `old`/`new` as on the command line; None means not given / remove it."""

    knob: str
    old: Json
    new: Json
    why: str


@frozen
class Verdict:
    """What is wrong. `kind` is one of `tui.sglang.verdicts.KINDS`; `confidence`: "certain", "likely" or "unknown"."""

    kind: str
    title: str
    why: str
    confidence: str
    evidence: tuple[Evidence, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    fixes: tuple[Fix, ...] = ()

    @property
    def remedy(self) -> tuple[Fix, ...]:
        """What to apply together. Fixes are alternatives, the best first; only a flag's renaming is a removal and an
        addition that belong together."""
        return self.fixes if self.kind == "bad-flag" else self.fixes[:1]
