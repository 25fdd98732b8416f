"""The one screen: status, bars, plot beside knobs, log, keys."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.screen import Screen

from tui.app.frame import NarrowCompositor
from tui.app.screens.explaining import Explaining
from tui.app.screens.steering import ALIVE, CONTROL, LOOK_AGAIN_S, Steering
from tui.app.screens.tuning import Tuning
from tui.app.widgets.footer import Caption, Footer
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.app.widgets.legend import GpuTitle, Legend
from tui.app.widgets.log_pane import LogPane
from tui.app.widgets.notices import Notices
from tui.app.widgets.plot import Plot
from tui.app.widgets.status_line import StatusLine
from tui.app.widgets.verdict_card import VerdictCard, as_text
from tui.port import Feed
from tui.snapshot import Snapshot, State

SHORT = 30  # rows from which there is room for titles

__all__ = ["CONTROL", "Dashboard"]


class Dashboard(Tuning, Steering, Explaining, Screen[None]):
    """Hands each Snapshot to the widgets, and keeps the knobs that wait for a restart."""

    BINDING_GROUP_TITLE = "Everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "app.help", "Help", id="app.help", key_display="?"),
        Binding("q", "app.leave", "Leave, the server stays", id="app.leave"),
        Binding("colon", "app.command_palette", "All commands", id="app.palette", key_display=":"),
        Binding("L", "launch", "Launch a profile", id="server.launch"),
        Binding("R", "restart", "Restart with the changed knobs", id="server.restart"),
        Binding("S", "stop", "Stop the server", id="server.stop"),
        Binding("K", "kill", "Kill a server that is stopping", id="server.kill"),
        Binding("B", "go_back", "Go back to the last launch that reached ready", id="server.back"),
        Binding("D", "servers", "Servers on this machine: watch one, take it over", id="server.find"),
        Binding("a", "apply_fix", "Apply the verdict's fix to the knobs", id="verdict.apply"),
        Binding("v", "verdict", "The whole verdict", id="verdict.show"),
        Binding("V", "evidence", "The verdict's line in the log", id="verdict.evidence"),
        Binding("i", "explain", "Where the numbers come from", id="app.explain"),
        Binding("escape", "back", "Put the verdict or message aside", id="app.back"),
        Binding("F", "find_flag", "Find a flag among all, and edit it", id="knob.find"),
        Binding("u", "undo", "Undo the last change of a knob", id="knob.undo"),
        Binding("ctrl+r", "redo", "Do it again", id="knob.redo"),
        Binding("c", "command_line", "Show and copy the command line", id="knob.command"),
        Binding("ctrl+w", "save", "Save the knobs as a profile", id="knob.save"),
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
        Binding("H", "history", "The history of runs", id="app.history"),
        Binding("W", "sweep", "The sweep: what is tried unattended", id="app.sweep"),
        Binding("z", "span", "Longer or shorter plot", id="plot.span"),
        Binding("1", "series(0)", "Plot tok/s", id="plot.throughput", show=False),
        Binding("2", "series(1)", "Plot the accept length", id="plot.accept", show=False),
        Binding("3", "series(2)", "Plot the use of the KV pool", id="plot.pool", show=False),
        Binding("4", "series(3)", "Plot the queue", id="plot.queue", show=False),
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
        self._compositor = NarrowCompositor()
        self._feed = feed
        self._snapshot = feed.snapshot

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
            yield LogPane(id="log-pane")
        yield Caption()
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(LogPane).focus()
        self.call_after_refresh(self.draw)
        self.run_worker(self.look_for_servers, group="servers")
        if self._snapshot.state is State.FAILED:
            self.run_worker(self.look_back, group="back", exclusive=True)
        self.set_interval(LOOK_AGAIN_S, lambda: self.run_worker(self.look_for_servers, group="servers"))

    def take(self, feed: Feed) -> None:
        """Show this feed from now on."""
        self._feed = feed
        self._snapshot = feed.snapshot

    # ---- drawing

    def show(self, snapshot: Snapshot) -> None:
        """Draw this snapshot."""
        other = snapshot.run != self._snapshot.run
        failed = snapshot.state is State.FAILED and (other or self._snapshot.state is not State.FAILED)
        self._snapshot = snapshot
        if other:
            self.forget_pending()
        if failed:
            self.run_worker(self.look_back, group="back", exclusive=True)
        self.draw()

    def draw(self) -> None:
        """Draw the latest snapshot again."""
        if not self.is_mounted or not self.size.height:
            return
        snapshot, height = self._snapshot, self.size.height
        short = height < SHORT
        self.query_one(StatusLine).show(snapshot, getattr(self.app, "frozen", False), self._feed.owner)
        self.query_one(GpuTitle).display = not short
        self.query_one(GpuTitle).show(snapshot)
        self.query_one(GpuBars).show(snapshot, 9 if short else (height - 8) // 2)
        self.query_one(Legend).show(snapshot)
        hint = self.found_servers if snapshot.run is None and snapshot.url is None else ""
        self.query_one(Notices).show(snapshot, 1 if short else 3, self.plan, hint)
        self.query_one(Plot).show(snapshot)
        self.query_one(Knobs).show(snapshot, self._pending)
        self.query_one(VerdictCard).show(snapshot.verdict, self._card_rows())
        self.query_one(Caption).show(self._feed.caption)
        self.query_one(Footer).show(self._keys())
        self._follow_log()

    def _card_rows(self) -> int:
        room: int = self.query_one("#log").size.height
        return max(3, min(14, room - 1 if room < 10 else room - 4))

    def _follow_log(self) -> None:
        pane = self.query_one(LogPane)
        pane.show_log(self._feed.log)
        pane.refresh_log(self._snapshot)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def _keys(self) -> list[tuple[str, str, str]]:
        """What the footer says: the keys of the moment first."""
        snapshot, free = self._snapshot, not self.read_only
        keys = [("?", "help", "app.help"), ("q", "leave", "app.leave")]
        if snapshot.verdict is not None:
            if free and snapshot.verdict.fixes:
                keys.append(("a", "apply fix", "apply_fix"))
            if free and snapshot.state is State.FAILED:
                keys.append(("R", "relaunch", "restart"))
                keys += [("B", "go back", "go_back")] if self.can_go_back else []
            keys.append(("v", "verdict", "verdict"))
        if free and snapshot.state not in ALIVE:
            keys.append(("L", "launch", "launch"))
        if free and (snapshot.controlled or snapshot.run) and not any(key == "R" for key, _, _ in keys):
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
            ("H", "history", "history"),
            (":", "all commands", "app.command_palette"),
        ]
        return keys

    def say(self, text: str, severity: str = "information", seconds: float | None = 6.0) -> None:
        """A message in the last line."""
        self.query_one(Footer).say(text, severity, seconds)

    # ---- actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (action in CONTROL and self.read_only)

    @property
    def read_only(self) -> bool:
        """Whether nothing may be changed here: a recording inside a dashboard that may control is for looking at."""
        return self._feed.read_only or getattr(self.app, "read_only", False)

    def action_back(self) -> None:
        footer = self.query_one(Footer)
        if self.cancel_sequence():
            return
        if footer.message:
            footer.hush()
        elif not self.query_one(VerdictCard).put_aside() and not self.query_one(Caption).put_aside():
            self.say(f"q leaves the dashboard. {self._feed.leaving}")

    def action_verdict(self) -> None:
        from tui.app.screens.reader import Reader, plain_lines

        verdict = self._snapshot.verdict
        if verdict is None:
            self.say("There is no verdict: nothing is known to be wrong.")
            return
        self.query_one(VerdictCard).bring_back()
        self.app.push_screen(Reader("Verdict", plain_lines(as_text(verdict))))

    def action_evidence(self) -> None:
        verdict, pane = self._snapshot.verdict, self.query_one(LogPane)
        if verdict is None or not verdict.evidence:
            self.say("There is no verdict with a line in the log.")
        elif pane.goto_line(verdict.evidence[-1].line):
            pane.focus()

    async def action_log(self, name: str) -> None:
        await self.query_one(LogPane).run_action(name)

    def action_span(self) -> None:
        self.say(f"The plot shows {self.query_one(Plot).next_span()}.", seconds=2.0)

    def action_series(self, index: int) -> None:
        self.say(f"The plot shows {self.query_one(Plot).choose(index)}.", seconds=2.0)

    def action_history(self) -> None:
        from tui.app.screens.runs import RunsScreen

        if self._feed.history is None:
            self.say("There is no history here.")
            return
        self.app.push_screen(RunsScreen(self._feed.history, self._feed.read_only))

    def action_sweep(self) -> None:
        from tui.app.screens.sweep import SweepScreen

        if self._feed.history is None:
            self.say("There is no history here.")
            return
        read_only = getattr(self.app, "sweeps_read_only", self.read_only)
        self.app.push_screen(SweepScreen(self._feed.history, read_only=read_only))
