"""A doctor's report as text and as JSON."""

import textwrap
from typing import Any

from tui.commands.doctor_case import Report
from tui.facts import Fix, Verdict
from tui.sglang.ledger import RankLedger

_SEGMENTS = (
    "free_before", "base", "draft", "kv_base", "kv_draft", "state", "graphs_base", "graphs_draft", "other", "free",
)  # fmt: skip
_DASH = "–"
_WIDTH = 100
_MOST_RANKS = 64


def to_json(report: Report) -> dict[str, Any]:
    """The contract: see tests/schemas/doctor.schema.json. GiB; null is unknown."""
    return {
        "sglang_version": report.sglang_version,
        "state": report.state.value,
        "phase": report.phase.value,
        "verdict": _verdict(report.verdict) if report.verdict is not None else None,
        "ranks": [
            {"rank": rank.rank} | {name: _rounded(getattr(rank, name)) for name in _SEGMENTS} for rank in report.ranks
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "kind": verdict.kind,
        "title": verdict.title,
        "why": verdict.why,
        "confidence": verdict.confidence,
        "evidence": [{"line": item.line, "text": plain(item.text)} for item in verdict.evidence],
        "numbers": dict(verdict.numbers),
        "fixes": [{"knob": f.knob, "from": f.old, "to": f.new, "why": f.why} for f in verdict.fixes],
    }


def lines_of(report: Report) -> list[str]:
    """The report for a person."""
    lines = [plain(_head(report))]
    if report.verdict is None:
        lines += ["", "Nothing is wrong in this log."]
    else:
        lines += ["", *_about(report.verdict)]
    if report.ranks:
        lines += ["", *_table(report.ranks)]
    return lines


def _head(report: Report) -> str:
    version = f"SGLang {report.sglang_version}" if report.sglang_version else ""
    version = version or (f"SGLang {report.version_note}" if report.version_note else "SGLang of unknown version")
    counted = f"{report.lines} line" + ("" if report.lines == 1 else "s")
    return f"{report.name}: {counted}; {version}; {report.state.value}, phase: {report.phase.value}"


def _about(verdict: Verdict) -> list[str]:
    sure = "" if verdict.kind == verdict.confidence else f" ({verdict.confidence})"
    lines = [plain(f"{verdict.kind}{sure}: {verdict.title}"), ""]
    lines += textwrap.wrap(plain(verdict.why), _WIDTH)
    if verdict.evidence:
        width = len(str(verdict.evidence[-1].line))
        lines += ["", "Evidence"]
        lines += [f"  line {item.line:>{width}}  {plain(item.text)}" for item in verdict.evidence]
    if verdict.numbers:
        lines += ["", "Numbers"]
        width = max(map(len, verdict.numbers))
        lines += [f"  {name:<{width}}  {value:.10g}" for name, value in verdict.numbers.items()]
    if verdict.fixes:
        lines += ["", "Fix" if len(verdict.fixes) == 1 else "Fixes, the likeliest first"]
        for fix in verdict.fixes:
            lines += _difference(fix)
    return lines


def _difference(fix: Fix) -> list[str]:
    """As a difference of command lines."""
    lines = [f"  - {_flag(fix.knob, fix.old)}"] if fix.old not in (None, False) else []
    if fix.new not in (None, False):
        lines.append(f"  + {_flag(fix.knob, fix.new)}")
    elif not lines:
        lines.append(f"  - --{plain(fix.knob)}")
    indent = " " * 6
    return lines + textwrap.wrap(plain(fix.why), _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _flag(knob: str, value: Any) -> str:
    return plain(f"--{knob}" if value is True else f"--{knob} {value}")


def _table(ranks: tuple[RankLedger, ...]) -> list[str]:
    rows = [("GiB", *(name.replace("_", " ") for name in _SEGMENTS))]
    for rank in ranks[:_MOST_RANKS]:
        values = (getattr(rank, name) for name in _SEGMENTS)
        rows.append((rank.rank, *(_DASH if value is None else f"{value:.2f}" for value in values)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    if len(ranks) > _MOST_RANKS:
        lines.append(f"… and {len(ranks) - _MOST_RANKS} more ranks")
    return lines


def plain(text: str) -> str:
    """One line without a character that a terminal might act upon."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "�" for c in text)
