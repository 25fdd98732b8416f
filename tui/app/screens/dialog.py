"""The dialogs that ask before anything is done to a server. Cancel has the focus; y does it, n and escape do not."""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button

from tui.app.bars import free_gib, tightest
from tui.app.glyphs import UNICODE, Glyphs
from tui.app.text import DASH, count, escape, fit, gib, pad, value, width_of, wrap
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import Feed, Forecast
from tui.snapshot import Snapshot

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """Subclasses write `body` and `answer`."""

    BINDING_GROUP_TITLE = "Dialogs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "accept", "Do it", id="dialog.accept"),
        Binding("n,escape,q", "cancel", "Cancel", id="dialog.cancel"),
        Binding("left,h", "app.focus_previous", "Previous button", id="dialog.previous", show=False),
        Binding("right,l", "app.focus_next", "Next button", id="dialog.next", show=False),
    ]
    TITLE_TEXT = ""
    DO = "Do it"

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(lambda width: [[(fit(f" {self.TITLE_TEXT}", width), "title")], []])
            yield Rows(self.body, id="body")
            with Horizontal(id="buttons"):
                yield Button("Cancel (n)", id="cancel", compact=True)
                yield Button(f"{self.DO} (y)", id="accept", compact=True)

    def on_mount(self) -> None:
        self.query_one("#cancel").focus()

    def body(self, width: int) -> list[Line]:
        """What is being asked."""
        raise NotImplementedError

    def answer(self) -> Answer:
        """What accepting means."""
        raise NotImplementedError

    @on(Button.Pressed, "#accept")
    def action_accept(self) -> None:
        self.dismiss(self.answer())

    @on(Button.Pressed, "#cancel")
    def action_cancel(self) -> None:
        self.dismiss(None)


class StopDialog(Dialog[bool]):
    """Names what would be stopped."""

    TITLE_TEXT = "Stop the server?"
    DO = "Stop"

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def body(self, width: int) -> list[Line]:
        closing = "It gets SIGTERM and time to finish; what is left is then killed, and the memory is waited for."
        return [*server_lines(self._snapshot, width), [], *paragraph(closing, width, "quiet"), []]

    def answer(self) -> bool:
        return True


class RestartDialog(Dialog[dict[str, object]]):
    """Shows the difference in knobs, the forecast, and the requests that would be cut off."""

    TITLE_TEXT = "Restart the server?"
    DO = "Restart"

    def __init__(self, feed: Feed, snapshot: Snapshot, pending: Mapping[str, object]) -> None:
        super().__init__()
        self._feed = feed
        self._snapshot = snapshot
        self._pending = dict(pending)
        self._forecast: Forecast | None = None
        self._asked = False

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._ask())

    async def _ask(self) -> None:
        try:
            self._forecast = await self._feed.forecast(self._pending)
        finally:
            self._asked = True
            self.query_one("#body", Rows).rebuild()

    def body(self, width: int) -> list[Line]:
        lines = server_lines(self._snapshot, width)
        lines += [[], *difference(self._snapshot, self._pending, width), []]
        lines += forecast_lines(self._forecast, self._asked, width)
        return [*lines, []]

    def answer(self) -> dict[str, object]:
        return self._pending


class LaunchDialog(Dialog[str]):
    """Offers the profiles; arrows choose."""

    TITLE_TEXT = "Launch a server"
    DO = "Launch"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next profile", id="dialog.next-profile", show=False),
        Binding("up,k", "choose(-1)", "Previous profile", id="dialog.previous-profile", show=False),
    ]

    def __init__(self, feed: Feed, snapshot: Snapshot) -> None:
        super().__init__()
        self._profiles = feed.profiles()
        names = [profile.name for profile in self._profiles]
        self._chosen = names.index(snapshot.profile) if snapshot.profile in names else 0

    def action_choose(self, by: int) -> None:
        if self._profiles:
            self._chosen = (self._chosen + by) % len(self._profiles)
            self.query_one("#body", Rows).rebuild()

    def body(self, width: int) -> list[Line]:
        if not self._profiles:
            words = (
                "There are no profiles yet. `specdeck profile import` makes one of the command that starts your server."
            )
            return [*paragraph(words, width, "plain"), []]
        longest = max(width_of(escape(profile.name)) for profile in self._profiles)
        room = min(longest, width // 2)
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        lines: list[Line] = []
        for i, profile in enumerate(self._profiles):
            here = i == self._chosen
            words = profile.problem or profile.description
            lines.append(
                [
                    (f" {glyphs.cursor if here else ' '} ", "key"),
                    (pad(escape(profile.name), room), "cursor" if here else "strong"),
                    (fit(f"  {escape(words)}", width - room - 4), "bad" if profile.problem else "quiet"),
                ]
            )
        return [*lines, [], *self._details(width), []]

    def _details(self, width: int) -> list[Line]:
        profile = self._profiles[self._chosen]
        lines = paragraph(escape(profile.problem or profile.description), width, "bad" if profile.problem else "plain")
        return [*lines, [(fit(f" {escape(profile.path)}", width - 1), "quiet")]]

    def action_accept(self) -> None:
        if self._profiles and self._profiles[self._chosen].problem:
            self.app.notify(self._profiles[self._chosen].problem or "", severity="warning")
            return
        super().action_accept()

    def answer(self) -> str:
        return self._profiles[self._chosen].name if self._profiles else ""


def paragraph(text: str, width: int, style: str) -> list[Line]:
    """Words on lines, indented by one."""
    return [[(" " + line, style)] for line in wrap(text, width - 2)]


def server_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """Which server it is and who would notice."""
    rows = [
        ("server", snapshot.title or snapshot.profile or DASH),
        ("model", snapshot.model or DASH),
        ("answers at", snapshot.url or DASH),
        ("in flight", in_flight(snapshot)),
    ]
    busy = bool(snapshot.running or snapshot.queue)
    return [
        [
            (f" {pad(name, 12)}", "quiet"),
            (fit(escape(words), width - 14), "warn" if name == "in flight" and busy else "strong"),
        ]
        for name, words in rows
    ]


def in_flight(snapshot: Snapshot) -> str:
    """Requests that would be cut off, in words."""
    if snapshot.exited_at is not None:
        return "nothing, it has ended"
    if snapshot.running is None and snapshot.queue is None:
        return "not known"
    return f"{count(snapshot.running)} running, {count(snapshot.queue)} queued"


def difference(snapshot: Snapshot, pending: Mapping[str, object], width: int) -> list[Line]:
    """Old and new value of each changed knob."""
    if not pending:
        return [[(" no knob is changed: the same launch again", "quiet")]]
    old = {knob.name: knob.value for knob in snapshot.knobs}
    longest = min(max(width_of(escape(name)) for name in pending), width // 2)
    return [
        [
            (f" {pad(escape(name), longest)}  ", "quiet"),
            (fit(f"{value(old.get(name))} -> {value(new)}", width - longest - 4), "changed"),
        ]
        for name, new in pending.items()
    ]


def forecast_lines(forecast: Forecast | None, asked: bool, width: int) -> list[Line]:
    """Will it fit, by the tightest GPU."""
    if forecast is None:
        return paragraph("No forecast can be made." if asked else "Working out whether it fits…", width, "quiet")
    style = {True: "good", False: "bad", None: "warn"}[forecast.fits]
    lines = paragraph(escape(forecast.verdict), width, style)
    bar = tightest(forecast.bars)
    if bar is not None:
        kv = bar.segments.get("kv")
        words = f" tightest GPU: KV {gib(kv.gib if kv else None)} GiB, {gib(free_gib(bar))} GiB free"
        lines.append([(fit(words, width), "quiet")])
    return lines
