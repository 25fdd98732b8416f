"""What a sweep tries: profiles and knob values become cases, in order. Pure."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import PurePath
from typing import Any

from tui.errors import SpecdeckError

_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?")
_BUDGET = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")
MOST_CASES = 500


class SweepError(SpecdeckError):
    """A sweep that makes no sense, or cannot go on."""


@dataclass(frozen=True, slots=True)
class Case:
    """One launch: a profile by name and the knobs that differ from it (None takes one out)."""

    profile: str
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For a person. A profile that was given as a file goes by its name."""
        profile = profile_name(self.profile)
        if not self.knobs:
            return profile
        words = (f"no {name}" if value is None else f"{name}={_shown(value)}" for name, value in self.knobs.items())
        return f"{profile} {' '.join(words)}"


def profile_name(profile: str) -> str:
    """The name of a profile that is given by name or as a file."""
    return PurePath(profile).stem if profile.endswith(".toml") or "/" in profile else profile


def make_cases(profiles: Sequence[str], vary: Iterable[str], more: Iterable[str] = ()) -> tuple[Case, ...]:
    """Every profile with every combination of `vary` ("knob=a,b"), then the cases told one by one in `more`
    ("profile,knob=value,knob=value"). Raises SweepError."""
    knobs = [parse_vary(text) for text in vary]
    names = [name for name, _ in knobs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SweepError(f"--vary: {', '.join(sorted(twice))} is given more than once; list all values in one.")
    found = [
        Case(profile, dict(zip(names, values, strict=True)))
        for profile in profiles
        for values in itertools.product(*(values for _, values in knobs))
    ]
    found += [parse_case(text) for text in more]
    if len(found) > MOST_CASES:
        raise SweepError(f"{len(found)} launches are more than a sweep takes ({MOST_CASES}): vary less at a time.")
    kept: list[Case] = []
    for case in found:
        if case not in kept:
            kept.append(case)
    return tuple(kept)


def parse_vary(text: str) -> tuple[str, tuple[Any, ...]]:
    """`cuda-graph-max-bs=512,256` or `mem-fraction-static=0.80..0.90:0.02`; an empty value takes the knob out.

    Raises SweepError.
    """
    name, equals, values = text.partition("=")
    name = _knob(name)
    if not name or not equals:
        raise SweepError(f"--vary: {text!r} is not of the form KNOB=A,B,C or KNOB=FROM..TO:STEP.")
    listed: list[Any] = []
    for part in _split(values):
        span = _RANGE.fullmatch(part)
        listed += _range(text, *span.groups()) if span else [_value(part)]
    return name, tuple(listed)


def parse_case(text: str) -> Case:
    """`profile,knob=value,knob=value`. Raises SweepError."""
    profile, *rest = _split(text)
    knobs: dict[str, Any] = {}
    for part in rest:
        name, equals, value = part.partition("=")
        if not equals or not _knob(name):
            raise SweepError(f"--case: {text!r} is not of the form PROFILE,KNOB=VALUE,KNOB=VALUE.")
        knobs[_knob(name)] = _value(value)
    if not profile:
        raise SweepError(f"--case: {text!r} names no profile.")
    return Case(profile, knobs)


def parse_budget(text: str) -> float:
    """Seconds of "2h", "90m", "1h30m". Raises SweepError."""
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise SweepError(f"--budget: {text!r} is no time such as 2h, 90m or 1h30m.")
    hours, minutes, seconds = (float(group or 0) for group in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _split(text: str) -> list[str]:
    """At commas, but not inside brackets, braces and quotes."""
    parts, depth, quoted = [""], 0, False
    for char in text:
        quoted ^= char == '"'
        depth += 0 if quoted else (char in "[{") - (char in "]}")
        if char == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _range(text: str, first: str, last: str, step: str | None) -> list[Any]:
    """Counted in decimals, so that 0.80..0.90 by 0.02 ends at 0.9 and not near it."""
    try:
        low, high, by = Decimal(first), Decimal(last), Decimal(step or "1")
    except InvalidOperation as error:
        raise SweepError(f"--vary: {text!r} has a number that is none.") from error
    if by <= 0 or high < low or (high - low) / by > MOST_CASES:
        raise SweepError(f"--vary: {text!r} does not go from a smaller to a larger number in sensible steps.")
    count = int((high - low) / by) + 1
    values = [low + by * i for i in range(count)]
    whole = all("." not in part for part in (first, last, step or ""))
    return [int(value) if whole else float(value) for value in values]


def _value(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _knob(name: str) -> str:
    return name.strip().lstrip("-").replace("_", "-")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
