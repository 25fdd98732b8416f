"""Which rows of a document are in the window: following its end with few repaints, or standing still."""

from collections.abc import Callable, Iterator

from tui.app.log_document import Document, Entry
from tui.frozen import frozen

Height = Callable[[Entry], int]

# Seconds between two jumps. Below SOON the wire cannot show each: lines wait for the next jump.
SOON_S, OFTEN_S, SELDOM_S = 0.5, 1.5, 4.0


@frozen(kw_only=False)
class Placed:
    """A row of the window: the `row`-th of an entry."""

    entry: Entry
    row: int


class Window:
    """The rows from `skip` rows below the top of the entry at `top` on."""

    def __init__(self, height: Height) -> None:
        self._height = height
        self.top = 0
        self.skip = 0
        self._jumped_at = -1e9
        self._fresh = True  # the next time the end is shown, fill the window with what is before it

    def rows(self, document: Document, room: int) -> list[Placed]:
        """At most `room` rows."""
        placed: list[Placed] = []
        for entry in document.forward(self.top) if document.total else ():
            first = self.skip if entry.position <= self.top < entry.end else 0
            for row in range(min(first, self._height(entry) - 1), self._height(entry)):
                if len(placed) == room:
                    return placed
                placed.append(Placed(entry, row))
        return placed

    def to_end(self) -> None:
        """Show a full window of the end the next time `follow` is asked."""
        self._fresh = True

    def follow(self, document: Document, room: int, now: float) -> tuple[list[Placed], bool]:
        """The rows with the end in sight, and whether lines are held back until the next jump.

        New lines fill the window; when it is full, the old ones go up by so much that there is room for a while: a
        scroll repaints every row, so there should be few of them.
        """
        if not self._fresh:
            rows = self.rows(document, room + 1)
            reaches = bool(rows) and rows[-1].entry.end >= document.total
            if len(rows) <= room and (reaches or not document.total):
                return rows, False
            if now - self._jumped_at < SOON_S:
                return rows[:room], True
        keep = room if self._fresh else self._keep(room, now - self._jumped_at)
        self._fresh = False
        self._jumped_at = now
        self._put_last_at(document, keep)
        return self.rows(document, room), False

    def _keep(self, room: int, since_jump_s: float) -> int:
        """Rows that are full after a jump: all when lines are rare, few when there are many."""
        if since_jump_s > SELDOM_S:
            return room
        return max(1, room // 2 if since_jump_s > OFTEN_S else room // 4)

    def _put_last_at(self, document: Document, rows: int) -> None:
        self.top, self.skip = 0, 0
        for entry in document.backward(document.total):
            height = self._height(entry)
            self.top, self.skip = entry.position, max(0, height - rows)
            rows -= height
            if rows <= 0:
                return

    def scroll(self, document: Document, rows: int) -> None:
        """Down, or up where `rows` is negative, as far as there is something."""
        for _ in range(rows):
            entry = next(iter(document.forward(self.top)), None)
            if entry is None:
                return
            if self.skip + 1 < self._height(entry):
                self.skip += 1
            elif entry.end < document.total:
                self.top, self.skip = entry.end, 0
        upwards: Iterator[Entry] | None = None
        for _ in range(-rows):
            if self.skip:
                self.skip -= 1
                continue
            upwards = upwards or document.backward(self.top)
            entry = next(upwards, None)
            if entry is None:
                return
            self.top, self.skip = entry.position, self._height(entry) - 1

    def reveal(self, document: Document, position: int, room: int, *, centred: bool = False) -> None:
        """Scroll as little as needed until the entry at `position` is in the window; `centred` when it was not."""
        placed = self.rows(document, room)
        if any(item.entry.position <= position < item.entry.end for item in placed):
            return
        below = bool(placed) and position > placed[-1].entry.position
        self.top, self.skip = position, 0
        if centred:
            self.scroll(document, -(room // 3))
        elif below:
            self.scroll(document, -(room - 1))
