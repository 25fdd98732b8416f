"""The one screen: status, bars, plot beside knobs, log, keys."""

import importlib
import importlib.util
from collections.abc import AsyncIterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.screen import Screen
from textual.widget import Widget

from tui.app.screens.knob_editor import KnobEditor, Unset
from tui.app.screens.reader import Reader, bar_lines, plain_lines, setting_text
from tui.app.steps import step
from tui.app.widgets.footer import Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.legend import GpuTitle, Legend
from tui.app.widgets.notices import Notices
from tui.app.widgets.plot import Plot
from tui.app.widgets.status_line import StatusLine
from tui.app.widgets.verdict_card import VerdictCard, as_text
from tui.facts import Verdict
from tui.port import Feed, FlagInfo, Forecast
from tui.snapshot import Snapshot, State

LOG_PANE = "tui.app.widgets.log_pane"
SHORT = 30  # rows from which there is room for titles
CONTROL = frozenset({"launch", "restart", "stop", "apply_fix"})
ALIVE = (State.STARTING, State.RUNNING, State.STOPPING)


class Dashboard(Screen[None]):
    """Hands each Snapshot to the widgets, and keeps the knobs that wait for a restart."""

    BINDING_GROUP_TITLE = "Everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "app.help", "Help", id="app.help", key_display="?"),
        Binding("q", "app.leave", "Leave, the server stays", id="app.leave"),
        Binding("colon", "app.command_palette", "All commands", id="app.palette", key_display=":"),
        Binding("L", "launch", "Launch a profile", id="server.launch"),
        Binding("R", "restart", "Restart with the changed knobs", id="server.restart"),
        Binding("S", "stop", "Stop the server", id="server.stop"),
        Binding("a", "apply_fix", "Apply the verdict's fix", id="verdict.apply"),
        Binding("v", "verdict", "The whole verdict", id="verdict.show"),
        Binding("escape", "back", "Put the verdict or message aside", id="app.back"),
        Binding("tab", "app.focus_next", "Next pane", id="pane.next", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous pane", id="pane.previous", show=False),
        Binding("e", "log('next_error')", "Next error in the log", id="log.next-error"),
        Binding("E", "log('previous_error')", "Previous error in the log", id="log.previous-error"),
        Binding("slash", "log('search')", "Search the log", id="log.search", key_display="/"),
        Binding("n", "log('next_match')", "Next match", id="log.next-match"),
        Binding("N", "log('previous_match')", "Previous match", id="log.previous-match"),
        Binding("ampersand", "log('filter')", "Filter the log", id="log.filter", key_display="&"),
        Binding("f", "log('follow')", "Follow the log's end", id="log.follow"),
        Binding("w", "log('wrap')", "Wrap long lines", id="log.wrap"),
        Binding("z", "span", "Longer or shorter plot", id="plot.span"),
        Binding("p", "app.freeze", "Freeze the screen, or go on", id="app.freeze"),
        Binding("y", "app.copy", "Copy what has the focus", id="app.copy"),
        Binding("m", "app.mouse", "Give the mouse to the terminal, or take it", id="app.mouse"),
        Binding("less_than_sign", "app.rate(-1)", "Draw less often", id="app.slower", key_display="<"),
        Binding("greater_than_sign", "app.rate(1)", "Draw more often", id="app.faster", key_display=">"),
        Binding("ctrl+s", "app.dump", "Save the screen as text and SVG", id="app.dump"),
        Binding("ctrl+l", "app.redraw", "Draw everything again", id="app.redraw"),
        Binding("ctrl+z", "app.suspend_process", "Suspend", id="app.suspend", show=False),
    ]

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed
        self._snapshot = feed.snapshot
        self._pending: dict[str, object] = {}
        self._undo: list[dict[str, object]] = []
        self._forecast: Forecast | None = None
        self._flags: dict[str, FlagInfo] | None = None
        self._log: object = None

    def compose(self) -> ComposeResult:
        yield StatusLine()
        yield GpuTitle()
        yield GpuBars()
        yield Legend()
        yield Notices()
        with Horizontal(id="middle"):
            yield Plot()
            yield Knobs()
        with Container(id="log"):
            yield VerdictCard()
            yield self._make_log_pane()
        yield Footer()

    def _make_log_pane(self) -> Widget:
        if importlib.util.find_spec(LOG_PANE) is None:
            from tui.app.widgets.rows import Rows

            return Rows(lambda width: [[(" Log", "title")]], id="log-pane")
        pane: Widget = importlib.import_module(LOG_PANE).LogPane(id="log-pane")
        return pane

    def on_mount(self) -> None:
        pane = self.query_one("#log-pane")
        (pane if pane.can_focus else self.query_one(GpuBars)).focus()
        self.call_after_refresh(self.draw)

    # ---- drawing

    def show(self, snapshot: Snapshot) -> None:
        """Draw this snapshot."""
        if snapshot.run != self._snapshot.run:
            self._pending.clear()
            self._undo.clear()
            self._forecast = None
        self._snapshot = snapshot
        self.draw()

    def draw(self) -> None:
        """Draw the latest snapshot again."""
        if not self.is_mounted or not self.size.height:
            return
        snapshot, height = self._snapshot, self.size.height
        short = height < SHORT
        self.query_one(StatusLine).show(snapshot, getattr(self.app, "frozen", False))
        self.query_one(GpuTitle).display = not short
        self.query_one(GpuTitle).show(snapshot)
        self.query_one(GpuBars).show(snapshot, 9 if short else (height - 8) // 2)
        self.query_one(Legend).show(snapshot)
        self.query_one(Notices).show(snapshot, 1 if short else 3)
        self.query_one(Plot).show(snapshot)
        self.query_one(Knobs).show(snapshot, self._pending)
        self.query_one(VerdictCard).show(snapshot.verdict, self._card_rows())
        self.query_one(Footer).show(self._keys())
        self._follow_log()

    def _card_rows(self) -> int:
        room = self.query_one("#log").size.height
        return max(3, min(14, room - 1 if room < 10 else room - 4))

    def _follow_log(self) -> None:
        pane = self.query_one("#log-pane")
        if self._feed.log is not self._log and hasattr(pane, "show_log"):
            self._log = self._feed.log
            pane.show_log(self._log)
        if hasattr(pane, "refresh_log"):
            pane.refresh_log(self._snapshot)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def _keys(self) -> list[tuple[str, str, str]]:
        """What the footer says: the keys of the moment first."""
        snapshot, free = self._snapshot, not self._feed.read_only
        keys = [("?", "help", "app.help"), ("q", "leave", "app.leave")]
        if snapshot.verdict is not None:
            if free and snapshot.verdict.fixes:
                keys.append(("a", "apply fix", "apply_fix"))
            keys.append(("v", "verdict", "verdict"))
        if free and snapshot.state not in ALIVE:
            keys.append(("L", "launch", "launch"))
        if free and (snapshot.controlled or snapshot.run):
            keys.append(("R", "restart", "restart"))
        if free and snapshot.controlled and snapshot.state in ALIVE:
            keys.append(("S", "stop", "stop"))
        keys += [
            ("e", "error", "log('next_error')"),
            ("/", "search", "log('search')"),
            ("f", "follow", "log('follow')"),
            ("tab", "pane", "app.focus_next"),
            ("y", "copy", "app.copy"),
            ("p", "freeze", "app.freeze"),
            ("z", "span", "span"),
            (":", "all commands", "app.command_palette"),
        ]
        return keys

    def say(self, text: str, severity: str = "information", seconds: float | None = 6.0) -> None:
        """A message in the last line."""
        self.query_one(Footer).say(text, severity, seconds)

    # ---- actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (action in CONTROL and self._feed.read_only)

    def action_back(self) -> None:
        footer = self.query_one(Footer)
        if footer.message:
            footer.hush()
        elif not self.query_one(VerdictCard).put_aside():
            self.say("q leaves the dashboard; the server stays.")

    def action_verdict(self) -> None:
        verdict = self._snapshot.verdict
        if verdict is None:
            self.say("There is no verdict: nothing is known to be wrong.")
            return
        self.query_one(VerdictCard).bring_back()
        self.app.push_screen(Reader("Verdict", plain_lines(as_text(verdict))))

    async def action_log(self, name: str) -> None:
        pane = self.query_one("#log-pane")
        if hasattr(pane, f"action_{name}"):
            await pane.run_action(name)

    def action_span(self) -> None:
        self.say(f"The plot shows {self.query_one(Plot).next_span()}.", seconds=2.0)

    def action_launch(self) -> None:
        from tui.app.screens.dialog import LaunchDialog

        if self._snapshot.state in ALIVE:
            self.say("A server is there already: S stops it, R restarts it with the changed knobs.", "warning")
            return
        self.app.push_screen(LaunchDialog(self._feed, self._snapshot), self._launch)

    def _launch(self, profile: str | None) -> None:
        if profile:
            self.run_worker(self._launching(profile), group="control", exclusive=True)

    async def _launching(self, profile: str) -> None:
        self.say(f"launching {profile}…", seconds=None)
        try:
            problem = await self._feed.launch(profile, {})
        except Exception as error:
            problem = f"{profile} could not be launched: {error}"
        self.say(problem or f"{profile} is starting.", "error" if problem else "information", 20.0 if problem else 6.0)

    def action_stop(self) -> None:
        from tui.app.screens.dialog import StopDialog

        if problem := self._not_ours():
            self.say(problem, "warning")
            return
        self.app.push_screen(StopDialog(self._snapshot), self._stop)

    def _stop(self, yes: bool | None) -> None:
        if yes:
            self._tell(self._feed.stop(10.0))

    def action_restart(self) -> None:
        from tui.app.screens.dialog import RestartDialog

        if self._snapshot.run is None and (problem := self._not_ours()):
            self.say(problem, "warning")
            return
        self.app.push_screen(RestartDialog(self._feed, self._snapshot, self._pending), self._restart)

    def _restart(self, pending: dict[str, object] | None) -> None:
        if pending is not None:
            self._tell(self._feed.restart(pending))

    def _not_ours(self) -> str:
        """Why this server cannot be controlled from here, or nothing."""
        if self._snapshot.state not in ALIVE and self._snapshot.state is not State.UNKNOWN:
            return "No server is running. L launches one."
        if not self._snapshot.controlled:
            return "This server was not launched by specdeck: it is watched, not controlled."
        return ""

    def _tell(self, steps: AsyncIterator[str]) -> None:
        self.run_worker(self._telling(steps), group="control", exclusive=True)

    async def _telling(self, steps: AsyncIterator[str]) -> None:
        last = ""
        try:
            async for last in steps:
                self.say(last, seconds=None)
        except Exception as error:
            self.say(str(error) or type(error).__name__, "error", 20.0)
            return
        self.say(last, seconds=8.0)

    def action_apply_fix(self) -> None:
        verdict: Verdict | None = self._snapshot.verdict
        if verdict is None or not verdict.fixes:
            self.say("There is no fix to apply.")
            return
        fix = verdict.fixes[0]
        self._change({fix.knob: fix.new})
        self.action_restart()

    # ---- knobs

    def on_knobs_asked(self, message: Knobs.Asked) -> None:
        name = message.name
        knob = next((knob for knob in self._snapshot.knobs if knob.name == name), None)
        old = knob.value if knob else None
        now = self._pending.get(name, old)
        flag = self._flag(name)
        match message.what:
            case "step":
                self._change({name: step(flag, now, message.by)})
            case "default":
                self._change({name: old})
            case "edit":
                self.app.push_screen(KnobEditor(name, old, now, flag), lambda new: self._edited(name, new))
            case _:
                text = setting_text(name, now, knob.origin if knob else "", flag.help if flag else "")
                self.app.push_screen(Reader(name, plain_lines(text)))

    def _edited(self, name: str, new: object) -> None:
        if new is not None:
            self._change({name: None if new is Unset else new})

    def on_knobs_undo(self) -> None:
        if not self._undo:
            self.say("There is nothing to undo.")
            return
        self._pending = self._undo.pop()
        self._pending_changed()

    def on_gpu_bars_explain(self, message: GpuBars.Explain) -> None:
        bar = message.bar
        self.app.push_screen(Reader(f"GPU {bar.index}: where each GiB comes from", bar_lines(bar)))

    def _flag(self, name: str) -> FlagInfo | None:
        if self._flags is None:
            self._flags = {flag.name: flag for flag in self._feed.flags()}
        return self._flags.get(name)

    def _change(self, changes: dict[str, object]) -> None:
        in_force = {knob.name: knob.value for knob in self._snapshot.knobs}
        pending = {**self._pending, **changes}
        pending = {name: new for name, new in pending.items() if new != in_force.get(name)}
        if pending == self._pending:
            return
        self._undo.append(self._pending)
        self._pending = pending
        self._pending_changed()

    def _pending_changed(self) -> None:
        self.query_one(Knobs).show(self._snapshot, self._pending)
        self.run_worker(self._look_ahead(), group="forecast", exclusive=True)

    async def _look_ahead(self) -> None:
        """The ghosts of the pending knobs."""
        bars = self.query_one(GpuBars)
        if not self._pending:
            self._forecast = None
            bars.show_ghosts((), None)
            return
        try:
            self._forecast = await self._feed.forecast(dict(self._pending))
        except Exception as error:
            self.say(f"No forecast: {error}", "warning")
            return
        forecast = self._forecast
        if forecast is None:
            bars.show_ghosts((), None)
            self.say("No forecast can be made for these knobs.", "warning")
            return
        bars.show_ghosts(forecast.bars, forecast.fits)
        self.say(forecast.verdict, "error" if forecast.fits is False else "information", 12.0)
