"""The dashboard of a recording: the same screen, with keys that play it instead of keys that control a server."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.glyphs import glyphs_of
from tui.app.screens.dashboard import Dashboard
from tui.app.screens.dialog_lines import paragraph
from tui.app.text import duration, escape, fit, pad
from tui.app.widgets.canvas import Line
from tui.app.widgets.rows import Rows
from tui.port import Feed, Place

PLAYING = frozenset({"pause", "speed", "step", "jump"})


class ReplayDashboard(Dashboard):
    """`nested`: opened from the history of a dashboard, to which it goes back."""

    BINDING_GROUP_TITLE = "Replay"
    # These keys mean something else to the pane that has the focus, so they come before it.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause the replay, or go on", id="replay.pause", priority=True),
        Binding("greater_than_sign", "speed(2)", "Play faster", id="replay.faster", key_display=">", priority=True),
        Binding("less_than_sign", "speed(0.5)", "Play slower", id="replay.slower", key_display="<", priority=True),
        Binding("full_stop", "step(True)", "One moment on", id="replay.step", key_display=".", priority=True),
        Binding("comma", "step(False)", "One moment back", id="replay.step-back", key_display=",", priority=True),
        Binding(
            "right_square_bracket", "jump(True)", "Next phase, mark or crash", id="replay.next", key_display="]",
            priority=True,
        ),
        Binding(
            "left_square_bracket", "jump(False)", "Previous phase, mark or crash", id="replay.previous",
            key_display="[", priority=True,
        ),
        Binding("q", "leave", "Leave the replay", id="replay.leave"),
        Binding("t", "seek", "Go to a time or a place", id="replay.seek"),
    ]  # fmt: skip

    def __init__(self, feed: Feed, nested: bool = False) -> None:
        super().__init__(feed)
        self._nested = nested

    def on_mount(self) -> None:
        super().on_mount()
        if self._nested:
            self.run_worker(self._follow(), group="feed")

    async def _follow(self) -> None:
        try:
            await self._feed.run(self.show)
        except Exception as error:
            self.say(f"The recording cannot be played: {error or type(error).__name__}", "error", None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in PLAYING and (self.app.screen is not self or isinstance(self.focused, Input)):
            return False
        return super().check_action(action, parameters)

    def _keys(self) -> list[tuple[str, str, str]]:
        keys = [
            ("?", "help", "app.help"),
            ("q", "back" if self._nested else "leave", "leave"),
            ("space", "pause", "pause"),
            ("< >", "speed", "speed(2)"),
            (", .", "step", "step(True)"),
            ("[ ]", "phase", "jump(True)"),
            ("t", "go to", "seek"),
        ]
        known = {key for key, _, _ in keys} | {"p"}
        return keys + [key for key in super()._keys() if key[0] not in known]

    # ---- playing

    def action_pause(self) -> None:
        if self._feed.playback is not None:
            paused = self._feed.playback.pause()
            self.say("paused; space goes on" if paused else "playing", seconds=2.0)

    def action_speed(self, factor: float) -> None:
        if self._feed.playback is not None:
            self.say(f"{self._feed.playback.faster(factor):g} times as fast", seconds=2.0)

    async def action_step(self, forward: bool) -> None:
        if self._feed.playback is not None:
            await self._feed.playback.step(forward)

    async def action_jump(self, forward: bool) -> None:
        if self._feed.playback is not None:
            place = await self._feed.playback.jump(forward)
            self.say(place or f"There is no {'later' if forward else 'earlier'} phase, mark or crash.", seconds=3.0)

    def action_seek(self) -> None:
        if self._feed.playback is not None:
            self.app.push_screen(SeekDialog(self._feed.playback.places), self._seek)

    def _seek(self, where: str | None) -> None:
        if where:
            self.run_worker(self._seeking(where), group="seek", exclusive=True)

    async def _seeking(self, where: str) -> None:
        playback = self._feed.playback
        problem = await playback.seek(where) if playback is not None else None
        if problem:
            self.say(problem, "warning", 10.0)

    def action_leave(self) -> None:
        if self._nested:
            self.dismiss(None)
        else:
            self.app.exit(0)

    def action_back(self) -> None:
        if self._nested:
            self.dismiss(None)
        else:
            super().action_back()


class SeekDialog(ModalScreen[str | None]):
    """Where to go: a time, a share, or one of the places of the recording."""

    BINDING_GROUP_TITLE = "Go to"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Stay here", id="seek.cancel"),
        Binding("down", "choose(1)", "Next place", id="seek.next", show=False),
        Binding("up", "choose(-1)", "Previous place", id="seek.previous", show=False),
    ]

    def __init__(self, places: tuple[Place, ...]) -> None:
        super().__init__()
        self._places = places
        self._chosen = -1

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(lambda width: [[(fit(" Go to", width), "title")], []])
            box = Input(placeholder="+12:30, 45s, 90%, or a place below", id="editor-input", compact=True)
            box.cursor_blink = False
            yield box
            yield Rows(self._lines, id="body")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def action_choose(self, by: int) -> None:
        if self._places:
            first = self._chosen < 0 and by < 0
            self._chosen = (len(self._places) - 1) if first else (self._chosen + by) % len(self._places)
            self.query_one(Input).value = ""
            self.query_one("#body", Rows).rebuild()

    def _lines(self, width: int) -> list[Line]:
        glyphs = glyphs_of(self.app)
        lines: list[Line] = [[]]
        room = max(1, min(len(self._places), self.app.size.height - 10))
        top = max(0, min(self._chosen - room + 1, len(self._places) - room))
        for i, place in list(enumerate(self._places))[top : top + room]:
            here = i == self._chosen
            style = "cursor" if here else "bad" if place.kind == "crash" else "plain"
            lines.append(
                [
                    (f" {glyphs.cursor if here else ' '} ", "key"),
                    (pad(duration(place.at_s), 8, right=True), "quiet"),
                    (fit(f"  {escape(place.name)}", width - 12), style),
                ]
            )
        return [*lines, [], *paragraph("arrows choose a place, enter goes there, esc stays", width, "quiet")]

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value and self._chosen >= 0:
            self._chosen = -1
            self.query_one("#body", Rows).rebuild()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        place = self._places[self._chosen] if self._chosen >= 0 else None
        self.dismiss(f"+{place.at_s + 0.001:.3f}s" if place is not None else event.value.strip() or None)

    def action_cancel(self) -> None:
        self.dismiss(None)
