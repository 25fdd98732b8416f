"""Runs side by side: what was changed, where the memory went, whether it is faster, whether speculation pays."""

from tui.app.bars import KINDS, bar_cells, free_gib, scale_of, segment_gib
from tui.app.glyphs import Glyphs, glyphs_of
from tui.app.screens.reader import Reader
from tui.app.text import count, escape, fit, gib, pad, width_of, wrap
from tui.app.widgets.canvas import Line
from tui.port import RunComparison
from tui.snapshot import GpuBar

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SIZES = (("base", "base"), ("draft", "draft"), ("graphs", "graphs"), ("KV", "kv"), ("other", "other"), ("free", "free"))


class CompareScreen(Reader):
    """Scrolls; `y` copies it all."""

    def __init__(self, found: RunComparison) -> None:
        super().__init__("Compare", self._lines_of)
        self._found = found

    def _lines_of(self, width: int) -> list[Line]:
        return compare_lines(self._found, width, glyphs_of(self.app))


def compare_lines(found: RunComparison, width: int, glyphs: Glyphs) -> list[Line]:
    """The whole comparison on lines of `width` cells."""
    lines: list[Line] = []
    for letter, name, outcome in zip(LETTERS, found.runs, found.outcomes, strict=False):
        lines.append([(f" {letter}  ", "key"), (escape(name), "strong"), (f"  {escape(outcome)}", "quiet")])
    lines += [[], *_knobs(found, width), [], *_memory(found, width, glyphs), []]
    lines += _sentences("Throughput at equal batch size", found.speeds, width)
    if found.economy:
        lines += [[], *_sentences("Does speculation pay?", found.economy, width)]
    return [*lines, [], *_sentences("Time to ready", (found.ready,), width)]


def _knobs(found: RunComparison, width: int) -> list[Line]:
    if not found.knobs:
        return [[(" No knob differs", "title")]]
    longest = min(max(width_of(escape(name)) for name, _ in found.knobs), width // 3)
    share = max(6, (width - longest - 4) // len(found.runs))
    lines: list[Line] = [[(" Knobs that differ", "title")], _header(found, longest, share)]
    for name, values in found.knobs:
        row: Line = [(f"  {pad(escape(name), longest)} ", "quiet")]
        row += [(pad(escape(text), share - 1) + " ", "changed" if text != values[0] else "plain") for text in values]
        lines.append(row)
    return lines


def _header(found: RunComparison, longest: int, share: int) -> Line:
    letters = LETTERS[: len(found.runs)]
    return [(" " * (longest + 3), "plain"), *((pad(letter, share), "key") for letter in letters)]


def _memory(found: RunComparison, width: int, glyphs: Glyphs) -> list[Line]:
    """One bar for each run to the same scale, and the numbers below."""
    lines: list[Line] = [[(" Memory of the tightest rank, GiB", "title")]]
    room = width - 23
    scale = scale_of(found.bars)
    for letter, bar in zip(LETTERS, found.bars, strict=False):
        row: Line = [(f"  {letter} ", "key"), *_strip(bar, scale, room, glyphs)]
        lines.append([*row, (f" {gib(free_gib(bar))} GiB free", "plain")])
    cells = 10
    head: Line = [(" " * 4, "plain")]
    for name, kind in SIZES:
        glyph = glyphs.segments["kv-used" if kind == "kv" else kind]
        head += [(pad(f"{glyph} {name}", cells, right=True), kind if kind in KINDS and kind != "free" else "quiet")]
    lines.append([*head, (pad("KV tokens", cells + 2, right=True), "quiet")])
    for i, bar in enumerate(found.bars):
        row = [(f"  {LETTERS[i]} ", "key")]
        for size, first in zip(_sizes(bar), _sizes(found.bars[0]), strict=True):  # what differs stands out
            row.append((pad(size, cells, right=True), "changed" if size != first else "plain"))
        lines.append([*row, (pad(count(found.kv_tokens[i]), cells + 2, right=True), "plain")])
    return lines


def _strip(bar: GpuBar, scale: float, room: int, glyphs: Glyphs) -> Line:
    drawn = bar_cells(bar, scale, room)
    line: Line = [(glyphs.segments[kind] * cells, kind) for kind, cells in drawn]
    return [*line, (" " * (room - sum(cells for _, cells in drawn)), "plain")]


def _sizes(bar: GpuBar) -> list[str]:
    return [gib(segment_gib(bar, kind)) for _, kind in SIZES]


def _sentences(title: str, sentences: tuple[str, ...], width: int) -> list[Line]:
    lines: list[Line] = [[(fit(f" {title}", width), "title")]]
    for sentence in sentences:
        parts = wrap(escape(sentence), width - 4)
        lines += [[("  " if i == 0 else "    ", "plain"), (part, "plain")] for i, part in enumerate(parts)]
    return lines
