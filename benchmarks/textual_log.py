"""A plain Textual app that follows a file with the library's own Log widget: the obvious way to write a log pane."""

import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Log


class TextualLog(App[None]):
    def compose(self) -> ComposeResult:
        yield Log()

    def on_mount(self) -> None:
        self.file = Path(sys.argv[1]).open()  # noqa: SIM115 - open as long as the app
        self.set_interval(0.1, self.read)

    def read(self) -> None:
        if lines := self.file.read().splitlines():
            self.query_one(Log).write_lines(lines)


if __name__ == "__main__":
    TextualLog().run()
