"""How a recogniser makes its verdict."""

from collections.abc import Callable, Mapping, Sequence

from tui.facts import Evidence, Fix, Verdict
from tui.sglang.diagnosis.case import Case, Incident, shorten

GIB = 1 << 30
CERTAIN, LIKELY, UNKNOWN = "certain", "likely", "unknown"
Recogniser = Callable[[Incident, Case], Verdict | None]


def verdict(
    kind: str,
    incident: Incident,
    *codes: str,
    title: str,
    why: str,
    confidence: str = CERTAIN,
    numbers: Mapping[str, float] | None = None,
    fixes: Sequence[Fix | None] = (),
    evidence: Sequence[Evidence] = (),
) -> Verdict:
    """A verdict about an incident; `codes`: whose lines are the evidence."""
    lines = {item.line: item for item in (*evidence, *incident.evidence(*codes))}
    return Verdict(
        kind=kind,
        title=shorten(title, 200),
        why=" ".join(part for part in (why, _place(incident)) if part),
        confidence=confidence,
        evidence=tuple(lines[line] for line in sorted(lines)),
        numbers=numbers or {},
        fixes=tuple(fix for fix in fixes if fix is not None),
    )


def _place(incident: Incident) -> str:
    return f"It was said by rank {incident.rank}." if incident.rank else ""


def whole(value: object) -> int | None:
    """A whole number as it is; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def gib(value: float) -> str:
    """A size for a sentence."""
    return f"{value:.2f} GiB" if abs(value) >= 1 else f"{value * 1024:.0f} MiB"
