"""Text to read at leisure: help, the whole verdict, where a number comes from."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, zip_longest
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from tui.app.text import escape, fit, pad, width_of, wrap
from tui.app.widgets.canvas import Line, length
from tui.app.widgets.rows import Rows
from tui.app.words import GLOSSARY

WORD_CELLS = 18  # of the glossary's left column
KEY_CELLS = 10  # of a group's keys, at least
TWO_COLUMNS = 150
WORDS: Line = [(" Words", "title")]
Entry = tuple[str, str, str]  # group, keys, what they do


class Reader(ModalScreen[None]):
    """A title and scrolling lines."""

    BINDING_GROUP_TITLE = "Reading"
    KEYS = "y copy  esc close "
    AUTO_FOCUS = ""  # the input of the help is not even visible until it is asked for
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", "Close", id="reader.close"),
        Binding("down,j", "scroll(1)", "Down", id="reader.down", show=False),
        Binding("up,k", "scroll(-1)", "Up", id="reader.up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", id="reader.page-down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", id="reader.page-up", show=False),
        Binding("home,g", "edge(-1)", "Top", id="reader.top", show=False),
        Binding("end,G", "edge(1)", "Bottom", id="reader.bottom", show=False),
        Binding("y", "copy", "Copy", id="reader.copy"),
    ]

    def __init__(self, title: str, build: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._heading = title
        self._build = build

    def compose(self) -> ComposeResult:
        with Vertical(id="reader"):
            yield Rows(self._head, id="reader-title")
            with VerticalScroll(id="reader-scroll", can_focus=False):
                yield Rows(self._build, id="reader-body")
            yield from self.extra()

    def extra(self) -> Iterable[Widget]:
        """Widgets below the lines."""
        return ()

    def _head(self, width: int) -> list[Line]:
        return [[(pad(f" {self._heading}", width - len(self.KEYS)), "title"), (self.KEYS, "quiet")]]

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#reader-scroll", VerticalScroll)

    def action_scroll(self, rows: int) -> None:
        self._scroll.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        self._scroll.scroll_relative(y=pages * (self._scroll.size.height - 1), animate=False)

    def action_edge(self, where: int) -> None:
        if where < 0:
            self._scroll.scroll_home(animate=False)
        else:
            self._scroll.scroll_end(animate=False)

    def action_copy(self) -> None:
        copy: Callable[[str], None] = getattr(self.app, "copy_text", self.app.copy_to_clipboard)
        copy(self.query_one("#reader-body", Rows).text())

    def action_close(self) -> None:
        self.dismiss(None)


class HelpScreen(Reader):
    """All bindings, grouped, and the glossary; `/` narrows."""

    KEYS = "/ narrow  y copy  esc close "
    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Narrow", id="help.search")]

    def __init__(self, entries: Sequence[Entry], keymap: str) -> None:
        super().__init__("Keys and words", self._lines)
        self._entries = entries
        self._keymap = keymap
        self._wanted = ""

    def extra(self) -> Iterable[Widget]:
        box = Input(placeholder="narrow to…", id="reader-input", compact=True)
        box.cursor_blink = False
        box.display = False
        yield box

    def action_search(self) -> None:
        box = self.query_one("#reader-input", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value.lower()
        self.query_one("#reader-body", Rows).rebuild()

    def on_input_submitted(self) -> None:
        self.set_focus(None)

    def _lines(self, width: int) -> list[Line]:
        return help_lines(self._entries, self._wanted, width, self._keymap)


def help_lines(entries: Sequence[Entry], wanted: str, width: int, keymap: str) -> list[Line]:
    """Bindings by group, then the glossary, narrowed to what holds `wanted`; in two columns where there is room."""
    lines = _columns(entries, wanted, width) if width >= TWO_COLUMNS else _under(_blocks(entries, wanted, width))
    if not wanted:
        lines += [[], [(fit(f' Other keys: {escape(keymap)}, binding = "keys"', width), "quiet")]]
    return lines


def _blocks(entries: Sequence[Entry], wanted: str, width: int) -> list[list[Line]]:
    blocks: list[list[Line]] = []
    shown = [entry for entry in entries if wanted in " ".join(entry).lower()]
    for name, group in groupby(shown, key=lambda entry: entry[0]):
        rows = [(keys, words) for _, keys, words in group]
        column = max(KEY_CELLS, *(width_of(keys) for keys, _ in rows)) + 2
        block: list[Line] = [[(f" {name}", "title")]]
        blocks.append(
            block
            + [[(f"  {pad(keys, column)}", "key"), (fit(words, width - column - 3), "plain")] for keys, words in rows]
        )
    glossary = [(word, text) for word, text in GLOSSARY if wanted in f"{word} {text}".lower()]
    if glossary:
        block = [WORDS]
        room = min(max(len(word) for word, _ in glossary), WORD_CELLS) + 2
        for word, text in glossary:
            rest = zip_longest(wrap(word, room - 2), wrap(text, width - room - 4), fillvalue="")
            block += [[(f"  {pad(head, room)}", "strong"), (part, "plain")] for head, part in rest]
        blocks.append(block)
    return blocks


def _under(blocks: Sequence[list[Line]]) -> list[Line]:
    return [line for i, block in enumerate(blocks) for line in ([[], *block] if i else block)]


def _columns(entries: Sequence[Entry], wanted: str, width: int) -> list[Line]:
    """The blocks in reading order, as many in the left half as make it about as long as the right.

    The words head the right half: both halves begin with what is looked for most.
    """
    half = width // 2
    blocks = _blocks(entries, wanted, half)
    words = blocks[-1:] if blocks and blocks[-1][0] == WORDS else []
    blocks = blocks[: len(blocks) - len(words)]
    length_of = [len(_under(blocks[: at + 1])) for at in range(len(blocks))]
    both_rows = len(_under([*blocks, *words]))
    middle = next((at + 1 for at, rows in enumerate(length_of) if 2 * rows >= both_rows), len(blocks))
    empty: Line = []
    both = zip_longest(_under(blocks[:middle]), _under([*words, *blocks[middle:]]), fillvalue=empty)
    return [[*left, (" " * (half - length(left)), "plain"), *right] for left, right in both]


def plain_lines(text: str) -> Callable[[int], list[Line]]:
    """Text as lines, wrapped; harmless already."""

    def build(width: int) -> list[Line]:
        lines: list[Line] = []
        for row in text.split("\n"):
            indent = len(row) - len(row.lstrip())
            parts = wrap(row, width - 2 - indent) or [""]
            lines += [[(" " * (1 + indent) + part, "plain")] for part in parts]
        return lines

    return build
