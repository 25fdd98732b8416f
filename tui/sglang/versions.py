"""SGLang versions and the eras of its memory accounting.

An era is a run of versions with the same rules for the GPU memory budget. The borders were read in the published wheels
0.4.6.post5 to 0.5.23; a border that lies between two wheels that were read is placed at the later one's release number.
Pre- and post-releases belong to the era of their release number: 0.5.10rc1 already carries the code of 0.5.10.
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from tui.frozen import frozen
from tui.patterns import lazy

FIRST_KNOWN = (0, 4, 6)
LAST_KNOWN = (0, 5, 23)

_PATTERN = lazy(
    r"""^\s*v?
    (?P<release>\d+(?:\.\d+){1,3})
    (?:[-_.]?(?P<stage>a|alpha|b|beta|rc|c|pre)[-_.]?(?P<stage_number>\d*))?
    (?:[-_.]?post[-_.]?(?P<post>\d*))?
    (?:[-_.]?dev[-_.]?(?P<dev>\d*))?
    (?:\+[a-z0-9.+_-]*)?
    \s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "rc": 2, "c": 2, "pre": 2}
_DEV_ONLY, _FINAL = -1, 3
_NO_DEV = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A parsed version, ordered as Python package versions are. The local part ("+cu129") does not take part in it."""

    release: tuple[int, int, int]
    stage: tuple[int, int] = (_FINAL, 0)
    post: int = -1
    dev: int = _NO_DEV
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text or ".".join(map(str, self.release))

    def at_least(self, major: int, minor: int, patch: int) -> bool:
        """True when the release number is not before `major.minor.patch`; pre- and post-releases count as their
        release.
        """
        return self.release >= (major, minor, patch)

    def before(self, major: int, minor: int, patch: int) -> bool:
        """The opposite of `at_least`."""
        return not self.at_least(major, minor, patch)


class Era(Enum):
    """Runs of SGLang versions with one memory accounting; the value is what a person reads."""

    B = "0.4.6"
    C = "0.4.7 – 0.5.2"
    D = "0.5.3 – 0.5.6"
    E = "0.5.7 – 0.5.9"
    F = "0.5.10 – 0.5.13"
    G = "0.5.14 – 0.5.23"

    @property
    def summary(self) -> str:
        """One sentence: what sets this era apart."""
        return _SUMMARIES[self]


_SUMMARIES = {
    Era.B: "the automatic fraction comes from a fixed table; speculation does not change it",
    Era.C: "the automatic fraction reserves GiB by card size, and 2 GiB more for any speculation",
    Era.D: "the reserve follows chunk and graph sizes; EAGLE costs 2 GiB and adds tokens on top of the pool",
    Era.E: "as 0.5.3 – 0.5.6, without the tokens that EAGLE added on top of the pool",
    Era.F: "prefill graphs are on by default and charged; EAGLE costs 4 GiB of the automatic fraction",
    Era.G: "the draft is loaded before the pool is sized and its KV is in the cell; speculation has no surcharge",
}

# The first release of each era, newest first.
_BORDERS = (
    ((0, 5, 14), Era.G),
    ((0, 5, 10), Era.F),
    ((0, 5, 7), Era.E),
    ((0, 5, 3), Era.D),
    ((0, 4, 7), Era.C),
    (FIRST_KNOWN, Era.B),
)


@frozen(kw_only=False)
class EraFinding:
    """`era` is None when it cannot be told, and then `reason` says why. `warning` is set when it is an assumption."""

    era: Era | None
    reason: str | None = None
    warning: str | None = None


def parse_version(text: str | None) -> Version | None:
    """A version such as "0.5.9", "0.5.3.post3", "0.5.10rc1", "0.5.12+cu129"; None when it is none of that kind."""
    found = _PATTERN.match(text) if text else None
    if text is None or found is None:
        return None
    numbers = [int(part) for part in found["release"].split(".")][:3]
    release = (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)
    dev = int(found["dev"] or 0) if found["dev"] is not None else _NO_DEV
    post = int(found["post"] or 0) if found["post"] is not None else -1
    if found["stage"] is not None:
        stage = (_STAGES[found["stage"].lower()], int(found["stage_number"] or 0))
    else:
        stage = (_DEV_ONLY, 0) if dev != _NO_DEV and post < 0 else (_FINAL, 0)
    return Version(release=release, stage=stage, post=post, dev=dev, text=text.strip())


def find_era(version: Version | None) -> EraFinding:
    """The era with the reason when there is none: nothing is guessed for an unknown version or one before 0.4.6."""
    if version is None:
        return EraFinding(None, reason="The SGLang version is not known, so its memory rules cannot be chosen.")
    if version.release < FIRST_KNOWN:
        return EraFinding(
            None, reason=f"SGLang {version} is older than 0.4.6, the oldest version whose rules are known."
        )
    era = next(era for first, era in _BORDERS if version.release >= first)
    if version.release > LAST_KNOWN:
        newest = ".".join(map(str, LAST_KNOWN))
        return EraFinding(era, warning=f"SGLang {version} is newer than {newest}; the rules of {newest} are used.")
    return EraFinding(era)


def era(version: Version | None) -> Era | None:
    """The era of a version; None when it cannot be told (`find_era` gives the reason)."""
    return find_era(version).era


def draft_counted_before_pool(version: Version | None) -> bool | None:
    """Whether draft weights are loaded before the target's pool is sized; None for an unknown version.

    SGLang >= 0.5.14 (managers/scheduler.py, init_model_worker); before, the draft is built after the target finished
    (model_executor/model_runner.py, initialize).
    """
    found = era(version)
    return None if found is None else found is Era.G


def inflates_tokens(version: Version | None) -> bool | None:
    """Whether EAGLE adds draft tokens on top of the profiled pool: SGLang <= 0.5.6 (model_runner.py,
    init_memory_pool).
    """
    found = era(version)
    return None if found is None else found in (Era.B, Era.C, Era.D)
