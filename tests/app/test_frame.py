"""Differences, sent to a terminal, give the same picture as drawing everything."""

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from tui.app import main
from tui.app.frame import Frame, _cells
from tui.app.main import SpecdeckApp

WIDTH, HEIGHT = 16, 4
CHARS = "ab █▓·漢é"
STYLES = (
    None,
    Style(color="#102030", bgcolor="#000001"),
    Style(color="#102030", bgcolor="#202020"),
    Style(color="#ff0000", bgcolor="#000001", bold=True),
    Style(color="red"),
    Style(bgcolor="color(77)"),
    Style(reverse=True),
)
TOKEN = re.compile("\x1b\\[([0-9;]*)([Hm])|(.)", re.DOTALL)


class Terminal:
    """Just enough of one: cursor moves, colours, wide characters."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, frozenset[str]]] = {}
        self.pen: dict[str, str] = {}
        self.y = self.x = 0

    def write(self, data: str) -> None:
        for codes, final, char in TOKEN.findall(data):
            if final == "H":
                self.y, self.x = (int(part) - 1 for part in codes.split(";"))
            elif final == "m":
                self._colour(codes.split(";") if codes else ["0"])
            else:
                wide = 2 if char == "漢" else 1
                for i in range(wide):
                    self.cells[self.y, self.x + i] = (char if i == 0 else "", frozenset(self.pen.items()))
                self.x += wide

    def _colour(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code == "0":
                self.pen.clear()
            elif code in ("38", "48"):
                size = 4 if codes[0] == "2" else 2
                self.pen[code], codes[:] = ";".join(codes[:size]), codes[size:]
            elif int(code) in range(30, 38):
                self.pen["38"] = code
            else:
                self.pen[code] = code


def strip_of(runs: list[tuple[str, Style | None]]) -> Strip:
    """Exactly WIDTH cells, whatever the runs are."""
    return Strip([Segment(text, style) for text, style in runs]).adjust_cell_length(WIDTH)


RUN = st.tuples(st.text(st.sampled_from(CHARS), min_size=1, max_size=6), st.sampled_from(STYLES))
SCREEN = st.lists(st.lists(RUN, max_size=5).map(strip_of), min_size=HEIGHT, max_size=HEIGHT)


class Console:
    _color_system = ColorSystem.TRUECOLOR


def layout(screen: list[Strip]) -> CompositorUpdate:
    return LayoutUpdate([[strip] for strip in screen], Region(0, 0, WIDTH, HEIGHT))


def send(frame: Frame, update: CompositorUpdate) -> str:
    return frame.thrifty(update).render_segments(Console())  # type: ignore[arg-type]


def picture(screen: list[Strip]) -> dict[tuple[int, int], tuple[str, frozenset[str]]]:
    terminal = Terminal()
    terminal.write(send(Frame(), layout(screen)))
    return terminal.cells


@settings(max_examples=60)
@given(st.lists(SCREEN, min_size=1, max_size=4))
def test_frames_sent_as_differences_end_in_the_same_picture(screens: list[list[Strip]]) -> None:
    frame, terminal = Frame(), Terminal()
    for screen in screens:
        terminal.write(send(frame, layout(screen)))
        assert terminal.cells == picture(screen)


@settings(max_examples=60)
@given(SCREEN, SCREEN, st.lists(st.integers(0, HEIGHT - 1), min_size=1, max_size=3, unique=True))
def test_partial_updates_change_their_lines_only(before: list[Strip], after: list[Strip], rows: list[int]) -> None:
    frame, terminal = Frame(), Terminal()
    terminal.write(send(frame, layout(before)))
    chops = [{0: after[y] if y in rows else None} for y in range(HEIGHT)]
    update = ChopsUpdate(chops, [(y, 0, WIDTH) for y in sorted(rows)], [[WIDTH]] * HEIGHT)
    terminal.write(send(frame, update))
    assert terminal.cells == picture([after[y] if y in rows else before[y] for y in range(HEIGHT)])


def test_nothing_is_sent_when_nothing_changed() -> None:
    screen = [strip_of([("abc", STYLES[1])])] * HEIGHT
    frame = Frame()
    assert send(frame, layout(screen)) != ""
    assert send(frame, layout(screen)) == ""


def test_one_changed_cell_costs_one_move_one_colour_and_the_cell() -> None:
    frame = Frame()
    style = STYLES[1]
    send(frame, layout([strip_of([("a" * WIDTH, style)])] * HEIGHT))
    changed = [strip_of([("a" * WIDTH, style)])] * 3 + [strip_of([("aaaaaaab" + "a" * 8, style)])]
    assert send(frame, layout(changed)) == "\x1b[4;8H\x1b[38;2;16;32;48;48;2;0;0;1mb\x1b[0m"


def test_a_forgotten_frame_is_sent_whole() -> None:
    screen = [strip_of([("abc", None)])] * HEIGHT
    frame = Frame()
    first = send(frame, layout(screen))
    frame.forget()
    assert send(frame, layout(screen)) == first


def test_a_combining_mark_stays_with_its_character() -> None:
    cells = _cells([Segment("e\u0301x")], ColorSystem.TRUECOLOR)
    assert [char for char, _ in cells] == ["e\u0301", "x"]


async def test_a_row_that_is_drawn_after_a_layout_does_not_hide_the_widgets_of_the_others(fake) -> None:
    app = SpecdeckApp(fake.FakeFeed(fake.serving()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        compositor = app.dashboard._compositor
        cuts = [list(row) for row in compositor.cuts]
        compositor._cuts = None  # as a layout leaves it
        compositor._dirty_regions.add(Region(0, 0, 80, 1))
        compositor.render_partial_update()
        assert compositor.cuts == cuts


class Sent(SpecdeckApp):
    """Remembers what a terminal would show."""

    CSS_PATH = Path(main.__file__).with_name("specdeck.tcss")
    terminal: Terminal

    def _display(self, screen, renderable) -> None:
        if renderable is not None:
            self.terminal.write(send(self._frame, renderable))


async def test_partial_updates_of_the_dashboard_end_in_what_it_shows_when_drawn_whole(fake) -> None:
    """Only what is seen where something changed is asked for its lines, so nothing may be left out."""
    feed = fake.FakeFeed(fake.serving())
    app = Sent(feed)
    app.terminal = Terminal()
    async with app.run_test(size=(120, 40)) as pilot:
        for snapshot in (fake.loading(), fake.serving(), fake.crashed(), fake.many(), fake.cautioned(), fake.serving()):
            feed.push(snapshot)
            await pilot.pause()
            await pilot.press("tab")
            await pilot.pause()
        await pilot.press("question_mark")
        await pilot.pause()
        feed.push(fake.crashed())
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        for _ in range(3):
            await pilot.pause(0.05)
        whole = Terminal()
        whole.write(send(Frame(), app.screen._compositor.render_full_update()))
        assert app.terminal.cells == whole.cells
