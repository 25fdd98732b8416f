"""The log: follows its end at little cost, or stands still to be read, searched and filtered."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.app.log_document import LineDocument
from tui.app.log_lines import harmless
from tui.app.widgets.log_pane_finds import LogPaneFinds

MOST_COPIED = 20_000  # characters of one line


class LogPane(LogPaneFinds):
    """Draws the window of a `LogView` and nothing of the rest. Its positions are lines of the log's index."""

    BINDING_GROUP_TITLE = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next line", id="log.down", show=False),
        Binding("up,k", "move(-1)", "Previous line", id="log.up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", id="log.page-down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", id="log.page-up", show=False),
        Binding("home,g", "top", "The first line", id="log.top", show=False),
        Binding("end,G", "bottom", "The end, and follow it", id="log.bottom", show=False),
        Binding("right", "sideways(1)", "Scroll right", id="log.right", show=False),
        Binding("left", "sideways(-1)", "Scroll left", id="log.left", show=False),
        Binding("enter", "fold", "Fold or unfold the traceback", id="log.fold", show=False),
        Binding("h", "hide_polls", "Hide or show the requests of monitors", id="log.hide-polls", show=False),
        Binding("number_sign", "numbers", "Line numbers", id="log.numbers", key_display="#", show=False),
        Binding("escape", "clear", "End the filter, then the search", id="log.clear", show=False),
    ]

    def copied_text(self) -> str:
        """What y copies: the line or the whole traceback under the cursor, else what is in sight."""
        entry = self._entry()
        if entry is None:
            shown = [item.entry for item in self._placed if item.row == 0]
            return "\n".join(harmless(one.text, MOST_COPIED) for one in shown)
        if entry.block is None or not isinstance(self._document, LineDocument):
            return harmless(entry.text, MOST_COPIED)
        texts = self._document.index.read(entry.block.first, entry.block.last - entry.block.first + 1)
        return "\n".join(harmless(text, MOST_COPIED) for text in texts)
