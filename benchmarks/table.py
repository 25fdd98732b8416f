"""One line of the results, and all of them as text, Markdown or JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """`value` and `limit` in `unit`; None is "not measured", and `note` says why. Smaller is better."""

    what: str
    value: float | None
    unit: str
    limit: float | None = None
    peers: Mapping[str, float | None] = field(default_factory=dict)
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "–"
        if self.limit is None:
            return ""
        return "held" if self.value <= self.limit else "MISSED"


def number(value: float | None) -> str:
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def cells(row: Row) -> tuple[str, ...]:
    peers = ", ".join(f"{name} {number(value)}" for name, value in row.peers.items())
    limit = "" if row.limit is None else number(row.limit)
    return (row.what, f"{number(row.value)} {row.unit}", limit, row.verdict, peers, row.note)


HEADS = ("what", "measured", "at most", "limit", "peers", "note")


def as_text(rows: Iterable[Row]) -> str:
    table = [HEADS, *map(cells, rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADS) - 1)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[-1]]) for line in table)


def as_markdown(rows: Iterable[Row]) -> str:
    lines = ["| " + " | ".join(HEADS) + " |", "|---" * len(HEADS) + "|"]
    # A search for "a|b" is named in one of them.
    named = [[cell.replace("|", "\\|") for cell in cells(row)] for row in rows]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in named)])


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [{**asdict(row), "verdict": row.verdict} for row in rows]
