"""`i`: where the number under the cursor comes from, and those of the whole screen where there is no cursor."""

# What only the answer to a key needs is imported then, here as elsewhere: the first frame does not wait for it.
from functools import partial
from typing import Any

from tui.app.text import escape, fit, wrap
from tui.app.widgets.canvas import Line
from tui.app.widgets.gpu_bars import GpuBars
from tui.app.widgets.notices import notices
from tui.port import Feed, FlagInfo
from tui.snapshot import GpuBar, Snapshot


class Explaining:
    """Mixed into the dashboard's screen, whose methods it uses."""

    _feed: Feed
    _snapshot: Snapshot
    _pending: dict[str, object]
    app: Any
    run_worker: Any

    def action_explain(self) -> None:
        from tui.app.screens.reader import Reader

        snapshot = self._snapshot
        self.app.push_screen(Reader("Where the numbers come from", partial(screen_lines, snapshot)))

    def on_gpu_bars_explain(self, message: GpuBars.Explain) -> None:
        self.run_worker(partial(self._explain_bar, message.bar, message.plan), group="explain", exclusive=True)

    async def _explain_bar(self, bar: GpuBar, plan: GpuBar | None) -> None:
        from tui.app.screens.reader import Reader

        build = partial(bar_lines, bar, self._snapshot, plan, await self._chosen_fraction())
        self.app.push_screen(Reader(f"GPU {bar.index}: where each GiB comes from", build))

    def explain_knob(self, name: str, flag: FlagInfo | None) -> None:
        """The knob in a reader."""
        self.run_worker(partial(self._explain_knob, name, flag), group="explain", exclusive=True)

    async def _explain_knob(self, name: str, flag: FlagInfo | None) -> None:
        from tui.app.explain import entry_lines
        from tui.app.explain_knobs import knob_entry
        from tui.app.screens.reader import Reader

        knob = next((each for each in self._snapshot.knobs if each.name == name), None)
        how = await self._chosen_fraction() if name == "mem-fraction-static" and knob is None else ""
        entry = knob_entry(
            name,
            knob.value if knob else None,
            knob.origin if knob else "",
            flag.help if flag else "",
            self._snapshot,
            self._pending.get(name),
            how,
        )
        self.app.push_screen(Reader(name, lambda width: entry_lines([entry], width, "")))

    async def _chosen_fraction(self) -> str:
        """How SGLang chooses the fraction where nobody sets it; empty when it was set, or cannot be told."""
        if any(knob.name == "mem-fraction-static" and knob.origin != "server" for knob in self._snapshot.knobs):
            return ""
        try:
            plan = await self._feed.forecast({})
        except Exception:
            return ""  # the explanation stands without it
        return plan.fraction_formula if plan is not None else ""


def bar_lines(bar: GpuBar, snapshot: Snapshot, plan: GpuBar | None, how: str, width: int) -> list[Line]:
    """A GPU's segments now, and below them those of the plan for the changed knobs."""
    from tui.app.explain import bar_entries, entry_lines, plan_entries

    simulated = "  simulated" if snapshot.rehearsal else ""
    lines: list[Line] = [[(fit(f" {escape(bar.name)}  {escape(bar.uuid)}{simulated}", width), "quiet")], []]
    lines += entry_lines(bar_entries(bar, snapshot, how), width)
    if plan is not None:
        lines += [
            [],
            [(" What the plan makes of it with the changed knobs", "title")],
            *entry_lines(plan_entries(plan), width),
        ]
    for title, rows in (("Other processes", bar.foreign), ("Notes", (bar.note,) if bar.note else ())):
        if rows:
            lines += [[], [(f" {title}", "title")]]
            lines += [[("  " + part, "plain")] for row in rows for part in wrap(escape(row), width - 4)]
    return lines


def screen_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """Everything that there is to look at, whole, then the numbers of the status line and the plot."""
    from tui.app.explain import entry_lines
    from tui.app.explain_numbers import number_entries

    lines: list[Line] = []
    for text in notices(snapshot):
        lines += [[("  " + part, "warn")] for part in wrap(escape(text), width - 4)]
    if lines:
        lines = [[(" To look at", "title")], *lines, []]
    lines += [[(" Status line and plot", "title")], *entry_lines(number_entries(snapshot), width, "")]
    words = (
        "tab to the GPU bars or the knobs, then i: where each GiB comes from, what a knob moves. ? explains every word."
    )
    return [*lines, [], *([(" " + part, "quiet")] for part in wrap(words, width - 2))]
