"""Lines made by a function of the width: the body of dialogs, help and explanations."""

from collections.abc import Callable

from textual.geometry import Size

from tui.app.widgets.canvas import Canvas, Line


class Rows(Canvas):
    """As high as its lines."""

    def __init__(self, build: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._build = build

    def lines(self, width: int, height: int) -> list[Line]:
        return self._build(width)

    def rebuild(self) -> None:
        """The function would say something else now."""
        self.refresh(layout=True)
        self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._build(width))
