"""A sweep in words: what is going on, the table of its cases, and one case in full. Pure; no Textual."""

from collections.abc import Callable, Sequence

from tui.app.glyphs import Glyphs
from tui.app.text import DASH, count, duration, escape, fit, number, pad, width_of, wrap
from tui.app.widgets.canvas import Line, length, spread
from tui.port import SweepRow, SweepView

STATE_STYLE = {
    "running": "changed",
    "done": "good",
    "failed": "bad",
    "damaged": "bad",
    "skipped": "quiet",
    "will be skipped": "warn",
    "planned": "quiet",
    "finished": "good",
    "interrupted": "warn",
}
SHORT = {"will be skipped": "will skip"}
WIDE = 110  # from here on as many columns as there is room for
SHARE = 10  # cells that the last column needs
NAMING = 3  # columns that say which case it is
LEAST_CASE = 12
NO_SWEEP = (
    "No sweep yet. One tries profiles and knob values unattended, in the background:",
    "specdeck sweep PROFILE --vary cuda-graph-max-bs=512,256,128 --budget 2h --watch",
)
Column = tuple[str, int, bool, Callable[[SweepRow], tuple[str, str]]]  # title, cells, right-aligned, (text, style)


def head_lines(view: SweepView, place: tuple[int, int], width: int) -> list[Line]:
    """How it stands, the times, what it does now, the best so far. `place`: which sweep of how many."""
    tried = sum(row.state in ("done", "failed", "skipped") for row in view.rows)
    left: Line = [(" Sweep ", "title"), (escape(view.name), "strong"), ("  ", "plain")]
    left += [(view.state, STATE_STYLE.get(view.state, "plain")), (f"  {tried} of {len(view.rows)} cases", "quiet")]
    right: Line = [("REHEARSAL  ", "warn")] if view.rehearsal else []
    if place[1] > 1:
        right.append((f"{place[0]} of {place[1]} sweeps ", "quiet"))
    if view.problem:
        return [spread(left, right, width), *_told("", view.problem, "bad", width)]
    lines = [spread(left, right, width), _times(view)]
    running = next((row for row in view.rows if row.state == "running"), None)
    if running is not None:
        number_of = view.rows.index(running) + 1
        words = f"{escape(running.title)}: {escape(running.words)}"
        lines.append(_one("now", f"{number_of} of {len(view.rows)}: {words}", "changed", width))
    elif view.state == "interrupted":
        lines += _told("now", "nothing: R goes on with it", "warn", width)
    elif view.saved:
        lines.append(_one("saved", f"the best profile as {escape(view.saved)}", "plain", width))
    return [*lines, _one("best", escape(view.best) or DASH, "speed", width)]


def _times(view: SweepView) -> Line:
    line: Line = [(pad(" elapsed", 9), "quiet"), (duration(view.elapsed_s), "strong")]
    if view.state != "finished":
        left = f"about {duration(view.left_s)}" if view.left_s is not None else "not known before a case has ended"
        line += [("   left ", "quiet"), (left, "strong")]
    if view.budget_s is not None:
        rest = view.budget_s - view.elapsed_s
        words = f"{duration(rest)} of it left" if rest > 0 else "used up"
        tight = view.state != "finished" and (rest <= 0 or (view.left_s is not None and view.left_s > rest))
        line += [
            ("   budget ", "quiet"),
            (duration(view.budget_s), "strong"),
            (f", {words}", "warn" if tight else "quiet"),
        ]
        if tight and rest > 0:
            line.append(("; not all cases will be tried", "warn"))
    return line


def table_head(view: SweepView, width: int) -> Line:
    """The titles of the columns."""
    line: Line = [("  ", "plain")]
    for title, cells, right, _ in columns(view, width):
        line += [(pad(title, cells, right=right), "quiet"), ("  ", "plain")]
    return [*line, (fit("vs best", width - length(line)), "quiet")]


def columns(view: SweepView, width: int) -> list[Column]:
    """The columns for a width; the last one takes what is left."""
    wide = width >= WIDE
    longest = max([LEAST_CASE, *(width_of(escape(row.title)) for row in view.rows)])
    case = min(longest, max(LEAST_CASE, (width - 76) if wide else (width - 44)))
    naming: list[Column] = [
        ("#", 2, True, lambda row: ("" if row.place is None else str(row.place), "strong")),
        ("state", 9, False, lambda row: (SHORT.get(row.state, row.state), STATE_STYLE.get(row.state, "plain"))),
        ("case", case, False, lambda row: (_cut(escape(row.title), case), "strong")),
    ]
    first, *others = [
        (name if wide else "tok/s", max(7, width_of(name)) if wide else 7, True, _speed_of(place))
        for place, name in enumerate(view.workloads or ("tok/s",))
    ]
    accept: Column = ("accept", 6, True, lambda row: (number(row.accept_len, 2), "accept"))
    kv: Column = ("KV tokens", 9, True, lambda row: (count(row.kv_tokens), "plain"))
    ready: Column = ("ready", 6, True, lambda row: (duration(row.ready_s), "plain"))
    room = width - 2 - SHARE - sum(cells + 2 for _, cells, _, _ in (*naming, first, accept))
    kept: list[Column] = []
    for column in (kv, *others, ready) if wide else ():
        if column[1] + 2 <= room:
            kept.append(column)
            room -= column[1] + 2
    return [*naming, *(c for c in (kv, ready) if c in kept), first, *(c for c in others if c in kept), accept]


def _cut(title: str, cells: int) -> str:
    """A title that is too long loses its middle: what differs stands at its end."""
    if width_of(title) <= cells:
        return title
    head, *words = title.split(" ")
    head = fit(head, cells // 3)
    tail = ""
    while words and width_of(head) + 3 + width_of(words[-1]) + width_of(tail) <= cells:
        tail = f" {words.pop()}{tail}"
    return f"{head}{'' if head.endswith('…') else ' …'}{tail}" if tail else fit(title, cells)


def _speed_of(place: int) -> Callable[[SweepRow], tuple[str, str]]:
    return lambda row: (number(row.speeds[place]) if place < len(row.speeds) else DASH, "speed")


def row_line(view: SweepView, row: SweepRow, width: int, glyphs: Glyphs, cursor: bool) -> Line:
    """One case in one row; where nothing was measured yet, words take the room of the numbers."""
    line: Line = [(glyphs.cursor if cursor else " ", "key"), (" ", "plain")]
    for _, cells, right, cell in columns(view, width)[: None if row.place is not None else NAMING]:
        text, style = cell(row)
        style = "quiet" if text == DASH else "cursor" if cursor and style == "strong" and not right else style
        line += [(pad(text, cells, right=right), style), ("  ", "plain")]
    rest = width - length(line)
    words, style = _remark(row)
    return [*line, (fit(escape(words), max(0, rest)), style)]


def _remark(row: SweepRow) -> tuple[str, str]:
    if row.state == "done" and row.share is not None:
        share = "the best" if row.place == 1 else f"{row.share - 1:+.0%}"
        return (f"{share}; {row.words}" if row.words else share), "good" if row.place == 1 else "plain"
    return row.words, STATE_STYLE.get(row.state, "plain") if row.state in ("running", "failed") else "quiet"


def in_order(rows: Sequence[SweepRow], ranked: bool) -> list[SweepRow]:
    """As asked, or the fastest first and those without a speed after them."""
    if not ranked:
        return list(rows)
    return sorted(rows, key=lambda row: (row.place is None, row.place or 0))


def detail_lines(row: SweepRow, width: int) -> list[Line]:
    """What the row has no room for."""
    facts = [escape(row.run) if row.run else "not launched"]
    if row.seconds is not None:
        facts.append(f"took {duration(row.seconds)}")
    if row.ready_s is not None:
        facts.append(f"ready after {duration(row.ready_s)}")
    if row.free_gib is not None:
        facts.append(f"{number(row.free_gib)} GiB free")
    lines = [_one("case", escape(row.case or row.title), "strong", width)]
    lines.append(_one("run", ", ".join(facts), "plain", width))
    label = {"running": "now", "failed": "failed", "skipped": "skipped"}.get(row.state, "plan")
    return [*lines, *_told(label, escape(row.words), _remark(row)[1], width)[:3]] if row.words else lines


def economy_lines(view: SweepView, width: int) -> list[Line]:
    """Whether speculation pays, as far as it is known."""
    lines: list[Line] = []
    for place, sentence in enumerate(view.economy):
        lines += _told("", escape(sentence), "title" if place == 0 else "accept", width)
    return lines


def _one(name: str, words: str, style: str, width: int) -> Line:
    """The same on one line, cut where it is too long."""
    return [(f" {pad(name, 8)}", "quiet"), (fit(words, width - 10), style)]


def _told(name: str, words: str, style: str, width: int) -> list[Line]:
    """A name and words, wrapped under each other."""
    label = 8 if name else 0
    rows = wrap(words, width - label - 2) or [""]
    return [
        [(" " + (pad(name if i == 0 else "", label) if label else ""), "quiet"), (text, style)]
        for i, text in enumerate(rows)
    ]
