"""A sweep while it runs, and when it has ended: its cases, the time left, the best so far, and cancelling it."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.app.screens.dialog import ConfirmDialog
from tui.app.screens.history_screen import HistoryScreen
from tui.app.sweep_table import detail_lines, economy_lines, head_lines
from tui.app.widgets.canvas import Line
from tui.app.widgets.footer import Footer
from tui.app.widgets.rows import Rows
from tui.app.widgets.sweep_cases import SweepCases
from tui.port import History, SweepView

LOOK_S = 1.0
TOLD_S = 10.0  # how long it is said what became of a sweep
SHORT = 30  # rows below which only the case under the cursor is told in full


class SweepScreen(HistoryScreen):
    """Reads the sweep's state once a second. The sweep is a process of its own: closing this does nothing to it.

    `leaves`: nothing is behind this screen that the operator asked for, so `q` leaves the program.
    """

    BINDING_GROUP_TITLE = "Sweep"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,W", "close", "Back to the dashboard, the sweep goes on", id="sweep.close"),
        Binding("q", "leave", "Close, the sweep goes on", id="sweep.leave"),
        Binding("enter,i", "details", "All about the case's run", id="sweep.details"),
        Binding("r", "replay", "Play the case's run again", id="sweep.replay"),
        Binding("c", "compare", "Compare the case with the best", id="sweep.compare"),
        Binding("X", "cancel", "Stop the sweep that runs", id="sweep.cancel"),
        Binding("R", "resume", "Go on with an interrupted sweep", id="sweep.resume"),
        Binding("left_square_bracket", "turn(-1)", "Newer sweep", id="sweep.newer", key_display="["),
        Binding("right_square_bracket", "turn(1)", "Older sweep", id="sweep.older", key_display="]"),
        Binding("y", "app.copy", "Copy the table", id="sweep.copy"),
        Binding("question_mark", "app.help", "Keys and words", id="sweep.help", key_display="?"),
    ]

    def __init__(
        self, history: History, name: str | None = None, *, read_only: bool = False, leaves: bool = False
    ) -> None:
        """`name`: the sweep to show, by default the newest."""
        super().__init__(history, read_only)
        self._sweeps = history.sweeps
        self._shown, self._leaves = name, leaves
        self._names: tuple[str, ...] = ()
        self._view: SweepView | None = None

    def compose(self) -> ComposeResult:
        yield Rows(self._head, id="sweep-head")
        yield SweepCases()
        yield Rows(self._details, id="sweep-details")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(SweepCases).focus()
        self.query_one(Footer).show(self._keys())
        self._look()
        self.set_interval(LOOK_S, self._look)

    # ---- what is shown

    def changed(self) -> None:
        self._look()

    def _look(self) -> None:
        self.run_worker(self._read(), group="sweep", exclusive=True)

    async def _read(self) -> None:
        try:
            self._names = await self._sweeps.names()
            name = self._shown if self._shown in self._names else next(iter(self._names), None)
            view = None if name is None else await self._sweeps.view(name)
        except Exception as error:
            self.say(str(error) or type(error).__name__, "error")
            return
        if view is not None and view == self._view:
            return
        self._view, self._shown = view, name
        self.query_one(SweepCases).show(view)
        self.query_one("#sweep-head", Rows).rebuild()
        self.query_one(Footer).show(self._keys())

    def on_cursor_rows_moved(self) -> None:
        self.query_one("#sweep-details", Rows).rebuild()

    def _head(self, width: int) -> list[Line]:
        if self._view is None:
            return [[(" Sweep", "title")]]
        place = self._names.index(self._view.name) + 1 if self._view.name in self._names else 1
        return [*head_lines(self._view, (place, len(self._names)), width), []]

    def _details(self, width: int) -> list[Line]:
        row = self.query_one(SweepCases).selected if self.is_mounted else None
        if row is None or self._view is None:
            return []
        short = self.app.size.height < SHORT
        economy = [] if short else economy_lines(self._view, width)
        return [[], *detail_lines(row, width), *([[], *economy] if economy else [])]

    def _keys(self) -> list[tuple[str, str, str]]:
        state = self._view.state if self._view is not None else ""
        keys = [("esc", "dashboard", "close")]
        if self._leaves:
            keys.append(("q", "leave", "leave"))
        if state == "running" and not self._read_only:
            keys.append(("X", "stop the sweep", "cancel"))
        if state == "interrupted" and not self._read_only:
            keys.append(("R", "go on with it", "resume"))
        if self._view is not None:
            keys += [
                ("enter", "details", "details"),
                ("r", "replay", "replay"),
                ("c", "compare with the best", "compare"),
                ("s", "rank", "order"),
                ("y", "copy", "app.copy"),
            ]
        if len(self._names) > 1:
            keys.append(("[ ]", "other sweeps", "turn(1)"))
        return [*keys, ("?", "help", "app.help")]

    # ---- actions

    def action_close(self) -> None:
        self.dismiss(None)

    def action_leave(self) -> None:
        if self._leaves:
            self.app.exit(0)
        else:
            self.dismiss(None)

    def action_order(self) -> None:
        self.query_one(SweepCases).action_order()

    def action_turn(self, by: int) -> None:
        if self._view is None or self._view.name not in self._names:
            return
        place = self._names.index(self._view.name) + by
        if 0 <= place < len(self._names):
            self._shown = self._names[place]
            self._look()
        else:
            self.say(f"There is no {'older' if by > 0 else 'newer'} sweep.", seconds=3.0)

    def action_details(self) -> None:
        if run := self._run():
            self.explain(run)

    def action_replay(self) -> None:
        if run := self._run():
            self.play(run)

    def action_compare(self) -> None:
        run = self._run()
        best = next((row for row in self._view.rows if row.place == 1), None) if self._view else None
        if run is None:
            return
        if best is None or best.run is None:
            self.say("Nothing was measured yet.")
        elif best.run == run:
            self.say("This is the best: put the cursor on another case to compare it.")
        else:
            self.compare([run, best.run])

    def _run(self) -> str | None:
        """The run of the case under the cursor."""
        row = self.query_one(SweepCases).selected
        if row is None:
            return None
        if row.run is None:
            self.say("This case was not launched, so there is no run.", "warning")
        return row.run

    def action_cancel(self) -> None:
        view = self._view
        if view is None or not self._may("running", "No sweep is running here."):
            return
        words = (
            "The server of the case that runs is stopped, and its memory waited for. What was measured stays; "
            f"R, or specdeck sweep --resume {view.name}, goes on with what is left.",
        )
        asked = f"Stopping {view.name}: its server is being stopped."

        def answered(yes: bool | None) -> None:
            if yes:
                self.do(self._sweeps.cancel(view.name), asked, TOLD_S)

        self.app.push_screen(ConfirmDialog("Stop the sweep?", words, "Stop it"), answered)

    def action_resume(self) -> None:
        view = self._view
        if view is not None and self._may("interrupted", "Only an interrupted sweep can be gone on with."):
            self.say(f"{view.name} is being started…", seconds=None)
            self.do(self._sweeps.resume(view.name), f"{view.name} goes on in the background.", TOLD_S)

    def _may(self, state: str, otherwise: str) -> bool:
        if not self.may_change():
            return False
        if self._view is None or self._view.state != state:
            self.say(otherwise, "warning")
            return False
        return True
