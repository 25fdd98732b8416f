"""The knobs that wait for a restart: changed, undone, forecast, written down and saved."""

from functools import partial
from typing import Any

from tui.app.text import escape
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.knobs import Knobs
from tui.errors import SpecdeckError
from tui.facts import Verdict
from tui.port import Feed, FlagInfo, Forecast
from tui.snapshot import Snapshot

Pending = dict[str, object]


class Tuning:
    """Mixed into the dashboard's screen, whose methods it uses."""

    _feed: Feed
    _snapshot: Snapshot
    app: Any
    run_worker: Any
    query_one: Any
    say: Any
    draw: Any
    explain_knob: Any

    def __init__(self) -> None:
        super().__init__()
        self._pending: Pending = {}
        self._undo: list[Pending] = []
        self._redo: list[Pending] = []
        self._flags: dict[str, FlagInfo] | None = None
        self._wanted = 0
        self._looking = False
        self.plan: tuple[str, str] | None = None  # style and words of the plan's row

    def forget_pending(self) -> None:
        """Another run is on the screen: what was to be changed belongs to the one before."""
        self._pending, self._undo, self._redo, self._flags = {}, [], [], None
        self._wanted += 1
        self._show_plan(None)

    # ---- what the operator asks for

    def on_knobs_asked(self, message: Knobs.Asked) -> None:
        name = message.name
        match message.what:
            case "step":
                self._step(name, message.by > 0)
            case "default":
                self._default(name)
            case "edit":
                self._edit(name)
            case _:
                self.explain_knob(name, self._flag(name))

    def _in_force(self) -> Pending:
        return {knob.name: knob.value for knob in self._snapshot.knobs}

    def _step(self, name: str, up: bool) -> None:
        from tui.app.knob_values import next_value

        flag = self._flag(name)
        now = self._pending.get(name, self._in_force().get(name))
        if now is None:
            now = self._resolved(name, flag)
        new = next_value(name, now, up, flag)
        if new == now:
            self.say(f"{name} has no next value: enter types one.")
        else:
            self._change({name: new})

    def _resolved(self, name: str, flag: FlagInfo | None) -> object:
        """What is in force where the operator said nothing: SGLang's own choice, else its default."""
        if name == "mem-fraction-static" and self._snapshot.fraction is not None:
            return round(self._snapshot.fraction, 3)
        chosen = self._snapshot.args.get(name.replace("-", "_"))
        return chosen if chosen is not None or flag is None else flag.default

    def _default(self, name: str) -> None:
        if name in self._pending:
            self._change({name: self._in_force().get(name)})
            self.say(f"{name} is as in force; d once more leaves it to SGLang.")
        elif self._in_force().get(name) is not None:
            self._change({name: None})
            self.say(f"{name} is left to SGLang at the next start.")

    def _edit(self, name: str) -> None:
        from tui.app.screens.knob_editor import KnobEditor

        old = self._in_force().get(name)
        editor = KnobEditor(name, old, self._pending.get(name, old), self._flag(name))
        self.app.push_screen(editor, lambda new: self._edited(name, new))

    def _edited(self, name: str, new: object) -> None:
        from tui.app.screens.knob_editor import Unset

        if new is not None:
            self._change({name: None if new is Unset else new})
            self.query_one(Knobs).select(name)

    def action_find_flag(self) -> None:
        from tui.app.screens.flag_search import FlagSearch

        self._flag("")
        flags = tuple((self._flags or {}).values())
        set_now = {name: value for name, value in {**self._in_force(), **self._pending}.items() if value is not None}
        self.app.push_screen(FlagSearch(flags, set_now), self._found)

    def _found(self, name: str | None) -> None:
        if name:
            self._edit(name)

    def on_knobs_search(self) -> None:
        self.action_find_flag()

    def action_apply_fix(self) -> None:
        verdict: Verdict | None = self._snapshot.verdict
        if verdict is None or not verdict.fixes:
            self.say("There is no fix to apply.")
            return
        changed = self._change({fix.knob: fix.new for fix in verdict.remedy})
        words = ", ".join(fix.knob for fix in verdict.remedy)
        self.say(f"{words}: {'changed' if changed else 'changed already'}. R launches with it.", seconds=12.0)

    def action_undo(self) -> None:
        self._go(self._undo, self._redo, "There is nothing to undo.")

    def action_redo(self) -> None:
        self._go(self._redo, self._undo, "There is nothing to do again.")

    def _go(self, source: list[Pending], other: list[Pending], otherwise: str) -> None:
        if not source:
            self.say(otherwise)
            return
        other.append(self._pending)
        self._pending = source.pop()
        self._pending_changed()

    def action_command_line(self) -> None:
        self.run_worker(self._write_down, group="command", exclusive=True)

    async def _write_down(self) -> None:
        from tui.app.screens.reader import Reader, plain_lines

        try:
            text = (await self._feed.command(dict(self._pending))).rstrip("\n")
        except SpecdeckError as error:
            self.say(str(error), "warning")
            return
        self.app.copy_text(text)
        harmless = "\n".join(map(escape, text.split("\n")))
        self.app.push_screen(Reader("The command line of the next start, copied", plain_lines(harmless)))

    def action_save(self) -> None:
        from tui.app.screens.save_profile import SaveProfile

        if self._snapshot.run is None:
            self.say("There is no profile to save: L launches one first.", "warning")
            return
        self.app.push_screen(SaveProfile(self._snapshot, self._pending), self._save)

    def _save(self, name: str | None) -> None:
        if name:
            self.run_worker(partial(self._saving, name), group="save", exclusive=True)

    async def _saving(self, name: str) -> None:
        try:
            path = await self._feed.save_profile(name, dict(self._pending))
        except SpecdeckError as error:
            self.say(str(error), "error", 15.0)
        else:
            self.say(f"Saved as {path}", seconds=10.0)

    def _flag(self, name: str) -> FlagInfo | None:
        if self._flags is None:
            self._flags = {flag.name: flag for flag in self._feed.flags()}
        return self._flags.get(name)

    # ---- what comes of it

    def _change(self, changes: Pending) -> bool:
        in_force = self._in_force()
        pending = {**self._pending, **changes}
        pending = {name: new for name, new in pending.items() if new != in_force.get(name)}
        if pending == self._pending:
            return False
        self._undo.append(self._pending)
        self._redo.clear()
        self._pending = pending
        self._pending_changed()
        return True

    def _pending_changed(self) -> None:
        self.query_one(Knobs).show(self._snapshot, self._pending)
        self._wanted += 1
        if not self._looking:  # one at a time: while a key is held the newest state is forecast, none in between
            self._looking = True
            self.run_worker(self._look_ahead, group="forecast")

    async def _look_ahead(self) -> None:
        """The ghosts of the pending knobs, until they are those of the newest."""
        try:
            done = None
            while done != self._wanted:
                done = self._wanted
                plan, words = await self._ask()
                if done == self._wanted:
                    self._show_plan(plan, words)
        finally:
            self._looking = False

    async def _ask(self) -> tuple[Forecast | None, str]:
        if not self._pending:
            return None, ""
        try:
            plan = await self._feed.forecast(dict(self._pending))
        except Exception as error:
            return None, f"No forecast: {error}"
        return plan, "" if plan is not None else "No forecast can be made for these knobs."

    def _show_plan(self, plan: Forecast | None, words: str = "") -> None:
        bars = self.query_one(GpuBars)
        if plan is None:
            self.plan = ("quiet", words) if words else None
            bars.show_ghosts((), None)
        else:
            from tui.app.screens.dialog_lines import FIT_STYLE

            self.plan = (FIT_STYLE[plan.fits], plan_words(plan))
            bars.show_ghosts(plan.bars, plan.fits)
        self.draw()


def plan_words(plan: Forecast) -> str:
    """ "plan fits: …", "plan will not start: …": the plan's sentence, and what stays free."""
    from tui.app.screens.dialog_lines import room_left

    return f"plan {plan.verdict[:1].lower()}{plan.verdict[1:]} {room_left(plan)}".rstrip()
