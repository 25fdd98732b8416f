"""The table of runs in words: columns, order and filter. Pure; no Textual."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tui.app.glyphs import Glyphs
from tui.app.text import DASH, count, duration, escape, fit, number, pad, width_of
from tui.app.widgets.canvas import Line, length
from tui.port import RunRow

WIDE = 110  # from here on every column
LEAST_REMARK = 8  # cells; with fewer the lines below the table tell it
FAILED = ("failed to start", "crashed", "lost", "damaged")

_LAST = float("-inf")
# Name of an order, what it goes by, whether the largest comes first.
SORTS: Mapping[str, tuple[Callable[[RunRow], Any], bool]] = {
    "time": (lambda row: row.started_at or 0.0, True),
    "tok/s": (lambda row: _or(row.best_tok_s, _LAST), True),
    "accept length": (lambda row: _or(row.accept_len, _LAST), True),
    "KV tokens": (lambda row: _or(row.kv_tokens, _LAST), True),
    "free GiB": (lambda row: _or(row.free_gib, _LAST), True),
    "time to ready": (lambda row: _or(row.ready_s, -_LAST), False),
    "profile": (lambda row: row.profile, False),
    "outcome": (lambda row: row.outcome, False),
}


def in_order(rows: Sequence[RunRow], by: str) -> list[RunRow]:
    """By one of SORTS, runs of equal worth newest first, baselines before all others."""
    key, largest_first = SORTS[by]
    ordered = sorted(rows, key=SORTS["time"][0], reverse=True)
    ordered.sort(key=key, reverse=largest_first)
    ordered.sort(key=lambda row: not row.baseline)
    return ordered


def matching(rows: Sequence[RunRow], words: str) -> list[RunRow]:
    """Rows in which every word is found: in name, profile, outcome, verdict, knobs or note."""
    wanted = words.lower().split()
    return [row for row in rows if all(word in _text(row) for word in wanted)]


def speeds(row: RunRow, most: int = 3) -> str:
    """Typical tok/s at up to `most` batch sizes: "89.5@1 377@8"."""
    known = row.speeds
    if len(known) > most:
        known = (*known[: most - 1], known[-1]) if most > 1 else known[:1]
    return " ".join(f"{tok_s:.{0 if tok_s >= 100 else 1}f}@{batch}" for batch, tok_s in known) or DASH


Column = tuple[str, int, bool, Callable[[RunRow], tuple[str, str]]]  # title, cells, right-aligned, (text, style)


def columns(width: int) -> list[Column]:
    """The columns for a width; the last one takes what is left."""
    wide = width >= WIDE
    found: list[Column] = [
        ("started", 11, False, lambda row: (_started(row), "quiet")),
        ("profile", 18 if wide else 15, False, lambda row: (escape(row.profile), "strong")),
        ("outcome", 15 if wide else 10, False, lambda row: (escape(_outcome(row)), outcome_style(row))),
    ]
    if wide:
        found.append(("ready", 6, True, lambda row: (duration(row.ready_s), "plain")))
    found.append(("KV tokens", 9, True, lambda row: (count(row.kv_tokens), "plain")))
    if wide:
        found.append(("free", 5, True, lambda row: (number(row.free_gib), "plain")))
    sizes = 2 if wide else 1
    found.append(("tok/s@batch", 14 if wide else 11, True, lambda row: (speeds(row, sizes), "speed")))
    found.append(("accept", 6, True, lambda row: (number(row.accept_len, 2), "accept")))
    return found


def head_line(width: int) -> Line:
    """The titles of the columns."""
    line: Line = [("    ", "plain")]
    for title, cells, right, _ in columns(width):
        line += [(pad(title, cells, right=right), "quiet"), ("  ", "plain")]
    rest = width - length(line)
    return [*line, (fit("changed, note", rest), "quiet")] if rest >= LEAST_REMARK else line


def row_line(row: RunRow, width: int, glyphs: Glyphs, cursor: bool, marked: bool) -> Line:
    """One run in one row."""
    line: Line = [
        (glyphs.cursor if cursor else " ", "key"),
        ("x" if marked else " ", "changed"),
        ("B" if row.baseline else " ", "good"),
        (" ", "plain"),
    ]
    for _, cells, right, cell in columns(width):
        text, style = cell(row)
        style = "quiet" if text == DASH else style
        line += [(pad(text, cells, right=right), "cursor" if cursor and style == "strong" else style), ("  ", "plain")]
    rest = width - length(line)
    return [*line, *_remarks(row, max(0, rest))]


def detail_lines(row: RunRow, width: int) -> list[Line]:
    """What the row has no room for, on four lines."""
    outcome = escape(row.damaged) if row.damaged else escape(row.verdict or row.outcome)
    facts = []
    if row.ready_s is not None:
        facts.append(f"ready after {duration(row.ready_s)}")
    if row.free_gib is not None:
        facts.append(f"{number(row.free_gib)} GiB free")
    if row.best_tok_s is not None:
        facts.append(f"best {number(row.best_tok_s)} tok/s")
    if row.speeds:
        facts.append(f"typical {speeds(row, 8)} tok/s@batch")
    lines = [
        ("run", f"{escape(row.name)}{', the baseline' if row.baseline else ''}: {outcome}"),
        ("measured", ", ".join(facts) or DASH),
        ("changed", escape(row.changed) or "no knob, or there is no run before it"),
        ("note", escape(row.note) or "none; o writes one"),
    ]
    return [
        [(f" {pad(name, 9)} ", "quiet"), (fit(words, width - 12), "strong" if name == "run" else "plain")]
        for name, words in lines
    ]


def outcome_style(row: RunRow) -> str:
    """The colour of an outcome."""
    if row.damaged is not None or row.outcome in FAILED:
        return "bad"
    return "good" if row.outcome == "serving" else "quiet"


def _remarks(row: RunRow, width: int) -> Line:
    if width < LEAST_REMARK:
        return []
    note, changed = escape(row.note), escape(row.damaged or row.changed.replace("speculative-", ""))
    line: Line = [(fit(note, width), "plain")] if note else []
    left = width - width_of(line[0][0]) if line else width
    if changed and left > 4:
        gap = "; " if note else ""
        line.append((fit(gap + changed, left), "bad" if row.damaged else "quiet"))
    return line


def _outcome(row: RunRow) -> str:
    return row.verdict if row.verdict and row.outcome in FAILED else row.outcome or "not read yet"


def _started(row: RunRow) -> str:
    if row.started_at is None:
        return row.name[5:16].replace("T", " ")
    return time.strftime("%m-%d %H:%M", time.localtime(row.started_at))


def _text(row: RunRow) -> str:
    words = f"{row.name} {row.profile} {row.outcome} {row.verdict} {row.algorithm} {row.knobs} {row.note} {row.damaged}"
    return f"{words} {'baseline' if row.baseline else ''}".lower()


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
