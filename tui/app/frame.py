"""What the terminal shows, cell by cell, so that only cells that changed are sent.

Textual repaints each dirty region from its left edge with full colour codes for every run. Over SSH that is most of
the cost of a steady screen, so the app remembers the last frame and sends differences: the cursor is moved to the
changed cells, and a colour is sent only when it differs from the one before. It works for every widget and dialog.
This file is the only one that knows Textual's compositor (8.2 .. 8.x).
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.color import BLACK
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Cell = tuple[str, str]  # a character (or "" behind a wide one) and its SGR codes

# So many unchanged cells are sent again rather than jumped over: moving the cursor costs about as much.
GAP = 6
# Characters that are one cell wide for sure; strings of only these need no counting.
_NARROW = re.compile("[\x20-\x7e\u00a0-\u02ff\u2010-\u2027\u2500-\u27bf\u2800-\u28ff]*")


class Frame:
    """The cells on the terminal. `forget` when they may differ from what was sent: resize, resume, a request."""

    def __init__(self) -> None:
        self._lines: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """Send every cell again the next time it is drawn."""
        self._lines.clear()

    def thrifty(self, update: CompositorUpdate) -> CompositorUpdate:
        """The same update, rendered as differences."""
        if isinstance(update, ChopsUpdate):
            return _Difference(self, _spans_of_chops(update))
        if isinstance(update, LayoutUpdate):
            return _Difference(self, _spans_of_layout(update))
        return update

    def difference(self, spans: Iterable[tuple[int, int, list[Cell]]]) -> str:
        """The bytes that turn the remembered cells into `spans` of (y, x, cells), which are remembered."""
        out: list[str] = []
        sgr = ""
        for y, x, cells in spans:
            line = self._lines.setdefault(y, [])
            if len(line) < x + len(cells):
                line.extend([None] * (x + len(cells) - len(line)))
            for start, end in _changes(line, x, cells):
                out.append(f"\x1b[{y + 1};{x + start + 1}H")
                for char, codes in cells[start:end]:
                    if codes != sgr:
                        out.append(_transition(sgr, codes))
                        sgr = codes
                    out.append(char)
            line[x : x + len(cells)] = cells
        if sgr:
            out.append("\x1b[0m")
        return "".join(out)


class _Difference(CompositorUpdate):
    def __init__(self, frame: Frame, spans: Iterable[tuple[int, int, Iterable[Segment]]]) -> None:
        self._frame = frame
        self._spans = spans

    def render_segments(self, console: Console) -> str:
        system = console._color_system or ColorSystem.TRUECOLOR
        return self._frame.difference((y, x, _cells(segments, system)) for y, x, segments in self._spans)


class NarrowCompositor(Compositor):
    """Asks only those widgets for their lines that are seen where something changed; Textual's asks all."""

    def render_partial_update(self) -> ChopsUpdate | None:
        everything = self.visible_widgets
        _ = self.cuts  # kept until the next layout, so they must be made of all
        self._visible_widgets = _seen_in(everything, set(self._dirty_regions))
        try:
            return super().render_partial_update()
        finally:
            self._visible_widgets = everything


class PlainLines(StylesCache):
    """The lines of a widget without border and padding as it draws them, without the steps that are for those."""

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        if any(widget.styles.gutter):
            return super().render_widget(widget, crop)
        if widget.size.width != self._width:
            self.clear()
            self._width = widget.size.width
        filters = widget.get_line_filters()
        background = widget.background_colors[1] if filters else BLACK
        for y in crop.line_range:
            if y in self._dirty_lines or y not in self._cache:
                strip = widget.render_line(y)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, background)
                self._cache[y] = strip
        self._dirty_lines.difference_update(crop.line_range)
        strips = [self._cache[y] for y in crop.line_range]
        left, right = crop.column_span
        return strips if (left, right) == (0, self._width) else [strip.crop(left, right) for strip in strips]


def _seen_in(widgets: dict[Widget, tuple[Region, Region]], regions: set[Region]) -> dict[Widget, tuple[Region, Region]]:
    """The widgets, front to back, that show something in these regions: what lies behind others is not among them."""
    seen: dict[Widget, tuple[Region, Region]] = {}
    for widget, place in widgets.items():
        if not regions:
            break
        shown = place[0].intersection(place[1])
        touched = {region for region in regions if shown.overlaps(region)}
        if touched:
            seen[widget] = place
            regions -= {region for region in touched if shown.contains_region(region)}
    return seen


def _spans_of_chops(update: ChopsUpdate) -> list[tuple[int, int, Iterable[Segment]]]:
    spans: list[tuple[int, int, Iterable[Segment]]] = []
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            left, right = max(x, x1), min(end, x2)
            if strip is not None and left < right:
                spans.append((y, left, strip.crop(left - x, right - x)))
    return spans


def _spans_of_layout(update: LayoutUpdate) -> list[tuple[int, int, Iterable[Segment]]]:
    return [(y, update.region.x, Strip.join(line)) for y, line in enumerate(update.strips, update.region.y)]


def _cells(segments: Iterable[Segment], system: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in segments:
        if control:
            continue
        codes = "" if style is None else style._ansi
        if style is not None and codes is None:
            codes = Strip.render_ansi(style, system)
        codes = codes or ""
        if _NARROW.fullmatch(text):
            cells.extend([(char, codes) for char in text])
        else:
            _add_wide(cells, text, codes)
    return cells


def _add_wide(cells: list[Cell], text: str, codes: str) -> None:
    for char in text:
        size = get_character_cell_size(char)
        if size == 0:
            # A combining mark belongs to the character before it; alone it would move everything.
            if cells and cells[-1][0]:
                cells[-1] = (cells[-1][0] + char, cells[-1][1])
            continue
        cells.append((char, codes))
        cells.extend([("", codes)] * (size - 1))


def _changes(line: list[Cell | None], x: int, cells: list[Cell]) -> list[tuple[int, int]]:
    """Runs of cells that differ, near ones joined, never starting or ending inside a wide character."""
    if line[x : x + len(cells)] == cells:
        return []
    runs: list[tuple[int, int]] = []
    for i, cell in enumerate(cells):
        if line[x + i] == cell:
            continue
        if runs and i - runs[-1][1] <= GAP:
            runs[-1] = (runs[-1][0], i + 1)
        else:
            runs.append((i, i + 1))
    return [_whole(cells, start, end) for start, end in runs]


def _whole(cells: list[Cell], start: int, end: int) -> tuple[int, int]:
    while start > 0 and not cells[start][0]:
        start -= 1
    while end < len(cells) and not cells[end][0]:
        end += 1
    return start, end


@lru_cache(maxsize=4096)
def _transition(before: str, after: str) -> str:
    """The shortest codes that take the pen from one style to another."""
    if not after:
        return "\x1b[0m"
    attributes, foreground, background = _parts(after)
    old_attributes, old_foreground, old_background = _parts(before)
    lost = (old_attributes - attributes) or (old_foreground and not foreground) or (old_background and not background)
    if lost:
        return f"\x1b[0;{after}m"
    codes = sorted(attributes - old_attributes)
    if foreground != old_foreground:
        codes.append(foreground)
    if background != old_background:
        codes.append(background)
    return f"\x1b[{';'.join(codes)}m"


@lru_cache(maxsize=1024)
def _parts(codes: str) -> tuple[frozenset[str], str, str]:
    """(attributes, foreground, background) of SGR codes such as "1;38;2;1;2;3;48;5;7"."""
    attributes: set[str] = set()
    foreground = background = ""
    items = codes.split(";") if codes else []
    while items:
        code = items.pop(0)
        if code in ("38", "48"):
            size = 4 if items and items[0] == "2" else 2
            colour, items = ";".join([code, *items[:size]]), items[size:]
            foreground, background = (colour, background) if code == "38" else (foreground, colour)
        elif code in _FOREGROUNDS:
            foreground = code
        elif code in _BACKGROUNDS:
            background = code
        else:
            attributes.add(code)
    return frozenset(attributes), foreground, background


_FOREGROUNDS = frozenset(str(code) for code in (*range(30, 38), 39, *range(90, 98)))
_BACKGROUNDS = frozenset(str(code) for code in (*range(40, 48), 49, *range(100, 108)))
