"""Rows under a cursor, a screenful at a time: what the tables of runs and of a sweep's cases share."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from textual.binding import Binding
from textual.message import Message

from tui.app.widgets.canvas import Canvas

T = TypeVar("T")


def moves(group: str, what: str) -> list[Binding]:
    """The keys that move the cursor of a table of `what` (one word, singular), with ids in `group`."""
    keys = (
        ("down,j", "move(1)", f"Next {what}", "next"),
        ("up,k", "move(-1)", f"Previous {what}", "previous"),
        ("pagedown", "page(1)", f"Page of {what}s down", "page-down"),
        ("pageup", "page(-1)", f"Page of {what}s up", "page-up"),
        ("home,g", "move(-999999)", f"First {what}", "first"),
        ("end,G", "move(999999)", f"Last {what}", "last"),
    )
    return [Binding(key, action, words, id=f"{group}.{name}", show=False) for key, action, words, name in keys]


class CursorRows(Canvas, Generic[T], can_focus=True):
    """Keeps the rows and the cursor; a table draws them."""

    class Moved(Message):
        """Another row is under the cursor, or it changed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[T] = ()
        self._cursor = 0
        self._top = 0

    @property
    def selected(self) -> T | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    def place(self, rows: Sequence[T], cursor: int | None) -> None:
        """Draw these rows with the cursor on the one at `cursor`; None: it stays at its place."""
        self._rows = rows
        if cursor is not None:
            self._cursor = cursor
        self.action_move(0)

    def action_move(self, rows: int) -> None:
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor + rows))
        self.redraw()
        self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def seen(self, room: int) -> Iterator[tuple[T, bool]]:
        """The rows that `room` lines show, each with whether the cursor is on it."""
        room = max(1, room)
        self._top = max(0, min(self._top, len(self._rows) - room, self._cursor))
        self._top = max(self._top, self._cursor - room + 1)
        for position, row in enumerate(self._rows[self._top : self._top + room], self._top):
            yield row, position == self._cursor
