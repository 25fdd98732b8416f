"""Runs as text: the table and one run."""

import time
from collections.abc import Sequence

from tui.runs.listing import Notes, Row, shown
from tui.runs.summary import SpeedRow, Summary
from tui.wording import count

_NO_NOTES = Notes()
_HEAD = ("started", "profile", "outcome", "ready", "KV tokens", "free", "tok/s", "accept", "changed, notes")


def table_lines(table: Sequence[Row]) -> list[str]:
    """One line for each run, the columns as wide as they need to be."""
    cells = [_HEAD, *(_cells(row) for row in table)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def run_lines(summary: Summary, notes: Notes = _NO_NOTES) -> list[str]:
    """One run in full."""
    mark = "  [baseline]" if notes.baseline else ""
    lines = [
        f"{summary.run}{mark}",
        f"  profile {summary.profile}, SGLang {summary.sglang_version or '–'}, model {summary.model or '–'}",
        f"  {summary.outcome}" + (f": {plain(summary.verdict_title)}" if summary.verdict_title else ""),
    ]
    if notes.text:
        lines.append(f"  note: {plain(notes.text)}")
    if summary.previous:
        changed = "; ".join(f"{name} {shown(a)} -> {shown(b)}" for name, (a, b) in summary.changed.items())
        lines.append(f"  against {summary.previous}: {plain(changed) or 'the same knobs'}")
    if summary.ready_s is not None:
        phases = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in summary.phases_s.items())
        lines.append(f"  ready after {summary.ready_s:.0f} s" + (f" ({phases})" if phases else ""))
    memory = "  ".join(f"{name} {gib:.2f}" for name, gib in summary.memory_gib.items() if gib is not None)
    if memory:
        lines.append(f"  GiB of the tightest rank: {memory}")
    if summary.kv_tokens is not None:
        lines.append(f"  KV cache {count(summary.kv_tokens)} tokens")
    lines += [f"  {_speed(row)}" for row in summary.speeds]
    return lines + [f"  bench {result.line()}" for result in summary.benches]


def plain(text: str) -> str:
    """Text that came from a log, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "·" for char in text)


def _speed(row: SpeedRow) -> str:
    speed = row.speed
    accept = "" if speed.accept_len is None else f", accept length {speed.accept_len:.2f}"
    best = "" if row.best_tok_s is None else f", best {row.best_tok_s:.1f}"
    samples = f"{speed.samples} sample{'s' if speed.samples != 1 else ''}"
    return f"batch {speed.batch}: {speed.tok_s:.1f} tok/s{best}{accept} ({samples}, from {row.source})"


def _cells(row: Row) -> tuple[str, ...]:
    summary, run = row.summary, row.run
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started_at))
    notes = [f"[baseline] {row.notes.text}".strip() if row.notes.baseline else row.notes.text, row.change]
    if run.damaged is not None:
        notes.insert(0, run.damaged)
    elif summary is not None and summary.verdict:
        notes.insert(0, summary.verdict)
    last = plain("; ".join(filter(None, notes)))
    if summary is None:
        return (started, plain(run.profile), row.outcome or "not read yet", "–", "–", "–", "–", "–", last)
    return (
        started,
        plain(run.profile),
        row.outcome,
        _number(summary.ready_s, "{:.0f} s"),
        count(summary.kv_tokens),
        _number(summary.free_gib, "{:.1f} GiB"),
        _speeds(summary),
        _number(summary.accept_len, "{:.2f}"),
        last,
    )


def _speeds(summary: Summary) -> str:
    """Typical throughput at up to three batch sizes."""
    rows = summary.speeds
    kept = rows if len(rows) <= 3 else (rows[0], rows[len(rows) // 2], rows[-1])
    return " ".join(f"{row.speed.tok_s:.1f}@{row.speed.batch}" for row in kept) or "–"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
