"""The history: every launch, what was changed, what came of it, and what to do with it."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.app.run_table import detail_lines
from tui.app.screens.dialog import Dialog
from tui.app.screens.dialog_lines import paragraph
from tui.app.screens.history_screen import HistoryScreen
from tui.app.text import escape, fit
from tui.app.widgets.canvas import Line
from tui.app.widgets.footer import Footer
from tui.app.widgets.rows import Rows
from tui.app.widgets.runs_table import RunsTable
from tui.port import History, RunRow

FIRST = 100  # runs that are read before all others
KEYS = [
    ("esc", "back", "close"),
    ("enter", "details", "details"),
    ("space", "mark", "mark"),
    ("c", "compare", "compare"),
    ("r", "replay", "replay"),
    ("s", "sort", "sort"),
    ("/", "filter", "filter"),
    ("b", "baseline", "baseline"),
    ("o", "note", "note"),
    ("D", "delete", "delete"),
    ("W", "sweeps", "sweeps"),
]


class RunsScreen(HistoryScreen):
    """A table of runs. What is done to a run goes through the feed's history."""

    BINDING_GROUP_TITLE = "Runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,H", "close", "Back to the dashboard", id="runs.close"),
        Binding("enter,i", "details", "All about the run", id="runs.details"),
        Binding("c", "compare", "Compare the marked runs", id="runs.compare"),
        Binding("r", "replay", "Play the run again", id="runs.replay"),
        Binding("s", "sort", "Sort by the next column", id="runs.sort"),
        Binding("slash", "filter", "Only runs with these words", id="runs.filter", key_display="/"),
        Binding("b", "baseline", "Pin as baseline, or unpin", id="runs.baseline"),
        Binding("o", "note", "Write a note", id="runs.note"),
        Binding("D", "delete", "Delete the run", id="runs.delete"),
        Binding("W", "sweeps", "Sweeps: what was tried unattended", id="runs.sweeps"),
        Binding("u", "reload", "Read the runs again", id="runs.reload"),
        Binding("y", "app.copy", "Copy the run's name", id="runs.copy"),
        Binding("question_mark", "app.help", "Keys and words", id="runs.help", key_display="?"),
    ]

    def __init__(self, history: History, read_only: bool = False) -> None:
        super().__init__(history, read_only)

    def compose(self) -> ComposeResult:
        yield RunsTable()
        yield Rows(self._details, id="runs-details")
        box = Input(placeholder="words that name, profile, outcome, knobs or note have", id="runs-filter", compact=True)
        box.cursor_blink = False
        box.display = False
        yield box
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(RunsTable).focus()
        self.query_one(Footer).show(KEYS)
        self.action_reload()

    def _details(self, width: int) -> list[Line]:
        row = self._selected
        return detail_lines(row, width) if row else []

    def on_cursor_rows_moved(self) -> None:
        self.query_one("#runs-details", Rows).rebuild()

    @property
    def _selected(self) -> RunRow | None:
        return self.query_one(RunsTable).selected

    # ---- the filter

    def action_filter(self) -> None:
        box = self.query_one("#runs-filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one(RunsTable).order_rows(words=event.value)

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def _leave_filter(self) -> None:
        box = self.query_one("#runs-filter", Input)
        box.display = bool(box.value)
        self.query_one(RunsTable).focus()

    # ---- actions

    def action_close(self) -> None:
        box = self.query_one("#runs-filter", Input)
        if box.has_focus or box.value:
            box.value = ""
            self._leave_filter()
        else:
            self.dismiss(None)

    def action_sort(self) -> None:
        self.query_one(RunsTable).next_order()

    def action_reload(self) -> None:
        self.run_worker(self._load(), group="runs", exclusive=True)

    async def _load(self) -> None:
        try:
            rows = await self._history.runs(FIRST)
            if len(rows) == FIRST:  # thousands take a second: what fits on a screen is there at once
                self.query_one(RunsTable).show(rows)
                rows = await self._history.runs()
        except Exception as error:
            self.say(str(error) or type(error).__name__, "error", None)
            rows = ()
        self.query_one(RunsTable).show(rows)

    def changed(self) -> None:
        self.action_reload()

    def action_details(self) -> None:
        if row := self._selected:
            self.explain(row.name)

    def action_compare(self) -> None:
        names = self.query_one(RunsTable).marked or ([row.name] if (row := self._selected) else [])
        if names:
            self.compare(names)

    def action_replay(self) -> None:
        row = self._selected
        if row is None:
            return
        if row.damaged is not None:
            self.say(f"{row.name} is damaged: {row.damaged}.", "warning")
            return
        self.play(row.name)

    def action_baseline(self) -> None:
        if row := self._may_change():
            pinned = f"{row.name} is {'no baseline any more' if row.baseline else 'the baseline now'}."
            self.do(self._history.pin(row.name, not row.baseline), pinned)

    def action_note(self) -> None:
        if row := self._may_change():
            name = row.name

            def noted(text: str | None) -> None:
                if text is not None:
                    self.do(self._history.annotate(name, text), f"Noted on {name}.")

            self.app.push_screen(NoteEditor(name, row.note), noted)

    def action_delete(self) -> None:
        if row := self._may_change():
            if row.alive:
                self.say(f"{row.name} is still running: stop it first.", "warning")
                return
            name = row.name

            def deleted(yes: bool | None) -> None:
                if yes:
                    self.do(self._history.delete(name), f"Deleted {name}.")

            self.app.push_screen(DeleteDialog(row), deleted)

    def action_sweeps(self) -> None:
        from tui.app.screens.sweep import SweepScreen

        self.app.push_screen(SweepScreen(self._history, read_only=self._read_only))

    def _may_change(self) -> RunRow | None:
        return self._selected if self.may_change() else None


class DeleteDialog(Dialog[bool]):
    """Names what would be gone."""

    TITLE_TEXT = "Delete this run for good?"
    DO = "Delete"

    def __init__(self, row: RunRow) -> None:
        super().__init__()
        self._row = row

    def body(self, width: int) -> list[Line]:
        words = "Its log, recording, measurements and note are removed from disk. No server is touched."
        lines = [*detail_lines(self._row, width), [], *paragraph(words, width, "quiet")]
        if self._row.baseline:
            lines += paragraph("It is the baseline: nothing would be compared with it any more.", width, "warn")
        return [*lines, []]

    def answer(self) -> bool:
        return True


class NoteEditor(ModalScreen[str | None]):
    """Dismisses with the new note, or with None when it stays as it is."""

    BINDING_GROUP_TITLE = "Note"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Leave the note as it is", id="note.cancel")]

    def __init__(self, name: str, note: str) -> None:
        super().__init__()
        self._name_of_run, self._note = name, note

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Rows(lambda width: [[(fit(f" Note on {escape(self._name_of_run)}", width), "title")], []])
            box = Input(self._note, id="editor-input", compact=True, select_on_focus=False)
            box.cursor_blink = False
            yield box
            yield Rows(
                lambda width: [
                    [],
                    *paragraph("enter keeps it, empty removes it, esc leaves it as it was", width, "quiet"),
                ]
            )

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        self.dismiss(None)
