"""The SGLang servers that run on this machine, whoever started them: watch one, or take it over."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.app.glyphs import glyphs_of
from tui.app.screens.dialog_lines import paragraph
from tui.app.text import escape, fit, pad
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import Feed, SeenServer

Chosen = tuple[str, SeenServer]


class ServersScreen(ModalScreen[Chosen]):
    """Dismisses with ("watch" or "adopt", the server), or with None."""

    BINDING_GROUP_TITLE = "Servers on this machine"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take('watch')", "Watch it", id="servers.watch"),
        Binding("A", "take('adopt')", "Take it over", id="servers.adopt"),
        Binding("r", "look", "Look again", id="servers.refresh"),
        Binding("escape,q", "cancel", "Close", id="servers.close"),
        Binding("down,j", "move(1)", "Next server", id="servers.next", show=False),
        Binding("up,k", "move(-1)", "Previous server", id="servers.previous", show=False),
    ]

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self._servers: tuple[SeenServer, ...] | None = None
        self._cursor = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(self._lines, id="body")

    def on_mount(self) -> None:
        self.action_look()

    def action_look(self) -> None:
        self._servers = None
        self.query_one("#body", Rows).rebuild()
        self.run_worker(self._look, exclusive=True)  # type: ignore[arg-type]

    async def _look(self) -> None:
        self._servers = await self._feed.discover()
        self._cursor = 0
        self.query_one("#body", Rows).rebuild()

    def _lines(self, width: int) -> list[Line]:
        lines: list[Line] = [[(fit(" SGLang servers on this machine", width), "title")], []]
        if self._servers is None:
            return [*lines, *paragraph("Looking at the processes…", width, "quiet")]
        if not self._servers:
            words = "None is seen. L launches a profile; `specdeck attach --url U` watches one that is elsewhere."
            return [
                *lines,
                *paragraph(words, width, "plain"),
                [],
                [(" r ", "key"), ("looks again  ", "quiet"), ("esc ", "key"), ("closes", "quiet")],
            ]
        glyphs = glyphs_of(self.app)
        for at, server in enumerate(self._servers):
            here = at == self._cursor
            ranks = f"{server.ranks} ranks" if server.ranks != 1 else "1 rank"
            words = f"{server.url}  {ranks}" + (f"  run {server.ours}" if server.ours else "")
            words = f"rehearsal  {words}" if server.rehearsal else words
            lines.append(
                [
                    (f" {glyphs.cursor if here else ' '} ", "key"),
                    (pad(f"process {server.pid}", 16), "cursor" if here else "strong"),
                    (fit(escape(words), width - 20), "plain"),
                ]
            )
        chosen = self._servers[self._cursor]
        lines += [[], *paragraph(escape(chosen.command or chosen.title), width, "quiet")[:4]]
        keys: Line = [(" enter ", "key"), ("watches it  ", "quiet")]
        if not self._feed.read_only:
            keys += [("A ", "key"), ("takes it over  ", "quiet")]
        return [*lines, [], [*keys, ("esc ", "key"), ("closes", "quiet")]]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self._feed.read_only and action == "take" and parameters == ("adopt",))

    def action_move(self, by: int) -> None:
        if self._servers:
            self._cursor = (self._cursor + by) % len(self._servers)
            self.query_one("#body", Rows).rebuild()

    def action_take(self, what: str) -> None:
        if self._servers:
            self.dismiss((what, self._servers[self._cursor]))

    def action_cancel(self) -> None:
        self.dismiss(None)


def adoption_words(server: SeenServer) -> tuple[str, ...]:
    """What taking a server over means."""
    log = f"Its log {server.log} is followed." if server.log else "Its output goes to no file, so its log is not seen."
    return (
        f"Process {server.pid}, {server.url}",
        "specdeck makes a run of its own command line, so that S can stop it and R can start it again with other "
        "knobs. Nothing is sent to it now and it goes on as it is.",
        f"It has no keeper: when it ends, its exit code is not known. {log}",
    )
