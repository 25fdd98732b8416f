"""Where every GiB of every GPU went: one row per GPU, and ghost rows for what pending knobs would make of it."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.app.bars import bar_cells, free_gib, over_budget, scale_of, tick_cell, tightest, used_fraction
from tui.app.glyphs import Glyphs
from tui.app.text import escape, fit, gib, number, pad, percent, wrap
from tui.app.widgets.canvas import DIM, Canvas, Line
from tui.snapshot import GpuBar, Snapshot

PREFIX = {"gpu": "GPU", "mig": "MIG", "unified": "UMA", "host": "RAM", "log": "rank"}
WIDE = 100  # from here on two decimals
SENSORS = 150  # from here on load, power and temperature
MANY = 16  # from here on the tightest come first


class GpuBars(Canvas, can_focus=True):
    """`show` a snapshot; `ghosts` are the forecast's bars by GPU index."""

    BINDING_GROUP_TITLE = "GPU bars"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next GPU", id="gpu.next", show=False),
        Binding("up,k", "move(-1)", "Previous GPU", id="gpu.previous", show=False),
        Binding("home,g", "move(-9999)", "First GPU", id="gpu.first", show=False),
        Binding("end,G", "move(9999)", "Last GPU", id="gpu.last", show=False),
        Binding("enter,i", "explain", "Where each GiB comes from", id="gpu.explain", show=False),
    ]

    class Explain(Message):
        """The operator asks where the numbers of a bar, and of its plan, come from."""

        def __init__(self, bar: GpuBar, plan: GpuBar | None) -> None:
            super().__init__()
            self.bar, self.plan = bar, plan

    def __init__(self) -> None:
        super().__init__(id="gpus")
        self._bars: tuple[GpuBar, ...] = ()
        self._ghosts: dict[int, GpuBar] = {}
        self._fits: bool | None = None
        self._empty = ""
        self._cursor = 0
        self._top = 0
        self._most_rows = 8

    def show(self, snapshot: Snapshot, most_rows: int) -> None:
        """Draw the bars of this snapshot in at most `most_rows` rows."""
        news = (in_order(snapshot.gpus), _empty_words(snapshot), max(1, most_rows))
        if news == (self._bars, self._empty, self._most_rows):
            return
        self._bars, self._empty, self._most_rows = news
        self._cursor = max(0, min(self._cursor, len(self._bars) - 1))
        self._fit_height()
        self.redraw()

    def show_ghosts(self, ghosts: Sequence[GpuBar], fits: bool | None) -> None:
        """Draw the forecast below the bars; none to take it away."""
        self._ghosts = {bar.index: bar for bar in ghosts}
        self._fits = fits
        self._fit_height()
        self.redraw()

    @property
    def selected(self) -> GpuBar | None:
        """The bar under the cursor."""
        return self._bars[self._cursor] if self._bars else None

    def action_move(self, rows: int) -> None:
        self._cursor = max(0, min(len(self._bars) - 1, self._cursor + rows))
        self.redraw()

    def action_explain(self) -> None:
        if self.selected:
            self.post_message(self.Explain(self.selected, self._ghosts.get(self.selected.index)))

    def lines(self, width: int, height: int) -> list[Line]:
        if not self._bars:
            return [[(" ", "plain"), (row, "quiet")] for row in wrap(self._empty, width - 2)]
        layout = Layout(self._bars, width)
        drawn: list[Line] = []
        for position, bar in self._visible():
            here = position == self._cursor and self.has_focus
            drawn.append(bar_line(bar, layout, self.glyphs, here))
            ghost = self._ghosts.get(bar.index)
            if ghost is not None and self._ghost_shown(bar):
                drawn.append(ghost_line(ghost, layout, self.glyphs, self._fits))
        if len(self._bars) > self._room():
            drawn.append(self._rest(width))
        return drawn

    def _rows_per_bar(self) -> int:
        return 2 if self._ghosts and 2 * len(self._bars) <= self._most_rows else 1

    def _room(self) -> int:
        """How many bars are drawn at once."""
        single = 1 if self._ghosts and self._rows_per_bar() == 1 else 0
        rows = self._most_rows - single
        if len(self._bars) * self._rows_per_bar() <= rows:
            return len(self._bars)
        return max(1, rows - 1)

    def _visible(self) -> list[tuple[int, GpuBar]]:
        room = self._room()
        self._top = max(0, min(self._top, len(self._bars) - room))
        if self._cursor < self._top:
            self._top = self._cursor
        elif self._cursor >= self._top + room:
            self._top = self._cursor - room + 1
        return list(enumerate(self._bars))[self._top : self._top + room]

    def _ghost_shown(self, bar: GpuBar) -> bool:
        return self._rows_per_bar() == 2 or bar == self._judge()

    def _judge(self) -> GpuBar | None:
        """The bar whose ghost is shown when there is room for one only: the one the forecast finds tightest."""
        visible = [bar for _, bar in self._visible()]
        judged = tightest(tuple(self._ghosts.values()))
        if judged is not None:
            visible = [bar for bar in visible if bar.index == judged.index] or visible
        return next((bar for bar in visible if bar.index in self._ghosts), None)

    def _rest(self, width: int) -> Line:
        room = self._room()
        shown = f"{self._top + 1}–{self._top + room} of {len(self._bars)}"
        known = [gib_ for bar in self._bars if (gib_ := free_gib(bar)) is not None]
        span = f", free {min(known):.2f} to {max(known):.2f} GiB" if known else ""
        order = ", tightest first" if len(self._bars) > MANY else ""
        return [(" ", "plain"), (fit(f"GPUs {shown}{order}{span}", width - 2), "quiet")]

    def _fit_height(self) -> None:
        bars = self._room() if self._bars else len(wrap(self._empty, (self.size.width or self.app.size.width) - 2))
        ghosts = sum(1 for bar in self._bars if bar.index in self._ghosts) if self._rows_per_bar() == 2 else 0
        if self._ghosts and self._rows_per_bar() == 1:
            ghosts = 1
        self.take_rows(bars + ghosts + (1 if len(self._bars) > self._room() else 0))


class Layout:
    """Column widths shared by all rows of one drawing."""

    def __init__(self, bars: Sequence[GpuBar], width: int) -> None:
        self.digits = 2 if width >= WIDE else 1
        self.sensors = width >= SENSORS
        self.label = min(max((len(label(bar)) for bar in bars), default=4), max(4, width // 6))
        tail = 6 if self.digits == 2 else 5
        self.numbers = tail + len(" GiB free 100%") + 2 + (len("  100%  1000 W  100 °C") if self.sensors else 0)
        self.free = tail
        self.bar = max(0, width - self.label - 3 - self.numbers)
        self.scale = scale_of(bars)


def label(bar: GpuBar) -> str:
    """ "GPU3 TP3", "RAM", "rank TP0"."""
    prefix = PREFIX.get(bar.kind, "GPU")
    if bar.kind == "log":
        return escape(bar.rank or f"{prefix} {bar.index}", 16)
    name = prefix if bar.kind == "host" else f"{prefix}{bar.index}"
    return f"{name} {escape(bar.rank, 12)}" if bar.rank and bar.kind != "host" else name


def in_order(bars: Sequence[GpuBar]) -> tuple[GpuBar, ...]:
    """The machine's order while a glance takes them all in; the tightest first when they are many."""
    if len(bars) <= MANY:
        return tuple(bars)
    return tuple(sorted(bars, key=lambda bar: (not bar.tight, (free if (free := free_gib(bar)) is not None else 1e9))))


def bar_line(bar: GpuBar, layout: Layout, glyphs: Glyphs, cursor: bool) -> Line:
    """One GPU's row."""
    mark = glyphs.cursor if cursor else " "
    style = "cursor" if cursor else ("strong" if bar.tight else "quiet")
    line: Line = [(mark, "key"), (pad(label(bar), layout.label), style), (" ", "plain")]
    if bar.error:
        room = layout.bar + layout.numbers
        return [*line, (fit(f"{glyphs.cross} {escape(bar.error)}", room), "bad")]
    line += strip(bar, layout, glyphs)
    return [*line, *_numbers(bar, layout, glyphs)]


def strip(bar: GpuBar, layout: Layout, glyphs: Glyphs, manner: str = "") -> Line:
    """The bar itself, `layout.bar` cells, the budget's tick on top. `manner` goes before each style's name."""
    cells: list[tuple[str, str]] = []
    for kind, count in bar_cells(bar, layout.scale, layout.bar):
        cells += [(glyphs.segments[kind], manner + kind)] * count
    tick = tick_cell(bar, layout.scale, layout.bar)
    if tick is not None:
        cells[tick] = (glyphs.tick, "tick-over" if over_budget(bar) else "tick")
    cells += [(" ", "plain")] * (layout.bar - len(cells))
    return _runs(cells)


def ghost_line(bar: GpuBar, layout: Layout, glyphs: Glyphs, fits: bool | None) -> Line:
    """The forecast's row below a GPU's own."""
    line: Line = [(" ", "plain"), (pad(f" {glyphs.ghost} plan", layout.label), "ghost"), (" ", "plain")]
    line += strip(bar, layout, glyphs, DIM)
    if fits is False:
        missing = free_gib(bar)
        words = (
            f"{gib(missing, layout.digits)} GiB {glyphs.cross}"
            if missing is not None and missing < 0
            else "will not start"
        )
        return [*line, (" " + pad(words, layout.numbers - 1), "bad")]
    return [*line, *_numbers(bar, layout, glyphs)]


def _numbers(bar: GpuBar, layout: Layout, glyphs: Glyphs) -> Line:
    free = pad(gib(free_gib(bar), layout.digits), layout.free, right=True)
    numbers: Line = [(f" {free}", "strong" if bar.tight else "plain"), (" GiB free", "quiet")]
    numbers.append((pad(percent(used_fraction(bar)), 5, right=True), "plain"))
    if layout.sensors:
        numbers.append((_sensors(bar), "quiet"))
    numbers.append((f" {glyphs.tight}" if bar.tight else "  ", "warn"))
    return numbers


def _sensors(bar: GpuBar) -> str:
    load = f"{number(bar.util_percent, 0)}%"
    power = f"{number(None if bar.power_w is None else round(bar.power_w, -1), 0)} W"
    heat = f"{number(bar.temperature_c, 0)} °C"
    return pad(load, 6, right=True) + pad(power, 8, right=True) + pad(heat, 8, right=True)


def _runs(cells: list[tuple[str, str]]) -> Line:
    runs: Line = []
    for char, style in cells:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + char, style)
        else:
            runs.append((char, style))
    return runs


def _empty_words(snapshot: Snapshot) -> str:
    if snapshot.gpu_error:
        return f"No GPU to show: {escape(snapshot.gpu_error, 160)}"
    return "No GPU has been read yet."
