"""A widget that draws lines of styled runs and repaints only the lines that changed."""

from collections.abc import Mapping
from itertools import zip_longest

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from tui.app.frame import PlainLines
from tui.app.glyphs import Glyphs, glyphs_of
from tui.app.text import fit, width_of

Run = tuple[str, str]  # text, name of a style
Line = list[Run]

DIM = "dim "  # before a style's name: the same, fainter
PLAIN, BOLD, REVERSE = Style(), Style(bold=True), Style(reverse=True)

# Name of a style -> a colour of the theme (see `tui.app.themes`), and how the text stands. They are no CSS classes:
# Textual would match each of them anew for every widget whenever the size or the screen changes.
STYLES: Mapping[str, tuple[str, Style]] = {
    "plain": ("foreground", PLAIN),
    "quiet": ("quiet", PLAIN),
    "faint": ("faint", PLAIN),
    "strong": ("strong", PLAIN),
    "title": ("strong", BOLD),
    "good": ("success", PLAIN),
    "warn": ("warning", PLAIN),
    "bad": ("error", BOLD),
    "key": ("primary", BOLD),
    "cursor": ("strong", REVERSE),
    "changed": ("accent", BOLD),
    "tick": ("tick", BOLD),
    "tick-over": ("error", BOLD + REVERSE),
    "base": ("seg-base", PLAIN),
    "draft": ("seg-draft", PLAIN),
    "graphs": ("seg-graphs", PLAIN),
    "kv-used": ("seg-kv-used", PLAIN),
    "kv": ("seg-kv", PLAIN),
    "other": ("seg-other", PLAIN),
    "foreign": ("seg-foreign", PLAIN),
    "free": ("seg-free", PLAIN),
    "unknown": ("faint", PLAIN),
    "speed": ("line-speed", PLAIN),
    "accept": ("line-accept", PLAIN),
    "ghost": ("accent", PLAIN),
}


class Canvas(Widget):
    """Subclasses write `lines`; whoever has news calls `redraw`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._styles_cache = PlainLines()
        self._lines: list[Line] = []
        self._styles: dict[str, Style] = {}

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return glyphs_of(self.app)

    @property
    def read_only(self) -> bool:
        """Whether the screen is only for looking at."""
        return bool(getattr(self.screen, "read_only", False))

    def lines(self, width: int, height: int) -> list[Line]:
        """What to show on `width` cells; `height` rows are visible."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Ask for the lines again and repaint those that changed."""
        size = self.size
        new = self.lines(size.width, size.height) if size.width else []
        old, self._lines = self._lines, new
        changed = [y for y, (was, now) in enumerate(zip_longest(old, new)) if was != now]
        for first, last in stretches(changed):
            self.refresh(Region(0, first, size.width, last + 1 - first))

    def take_rows(self, rows: int) -> None:
        """Be so high: the screen is laid out again only where that changes something."""
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    def watch_has_focus(self, has_focus: bool) -> None:
        """Not `on_blur`, which comes before the focus is gone: the cursor would stay."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def on_resize(self) -> None:
        self._lines = []
        self.redraw()
        self.refresh()

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, self._style("plain"))
        segments: list[Segment] = []
        room = width
        for text, style in self._lines[y]:
            text = fit(text, room, "")
            room -= width_of(text)
            segments.append(Segment(text, self._style(style)))
            if room <= 0:
                break
        if room > 0:
            segments.append(Segment(" " * room, self._style("plain")))
        return Strip(segments, width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def text(self) -> str:
        """What is shown, as plain text."""
        return "\n".join("".join(run for run, _ in line).rstrip() for line in self._lines)

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            variable, manner = STYLES[name.removeprefix(DIM)]
            background = self.background_colors[1]
            colour = background + Color.parse(self.app.theme_variables[variable])
            style = Style.from_color(colour.rich_color, background.rich_color if background.a else None) + manner
            if name.startswith(DIM):
                style += Style(dim=True)
            self._styles[name] = style
        return style


def stretches(rows: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of those that follow one another."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and found[-1][1] == row - 1:
            found[-1] = (found[-1][0], row)
        else:
            found.append((row, row))
    return found


def length(line: Line) -> int:
    """Cells that a line takes."""
    return sum(width_of(text) for text, _ in line)


def spread(left: Line, right: Line, width: int) -> Line:
    """`left`, space, and `right` at the right edge; `right` goes when there is no room."""
    space = width - length(left) - length(right)
    return [*left, (" " * space, "plain"), *right] if space >= 1 else left
