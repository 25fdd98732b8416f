"""Finding lines in the log: by number, by error, by search, and by a filter."""

from tui.app.log_document import LineDocument
from tui.app.log_query import Query, parse
from tui.app.widgets.log_pane_moves import LogPaneMoves

HINT = "text, /regular expression/, !not; capitals count when there is one; empty: none"


class LogPaneFinds(LogPaneMoves):
    """Searches and filters run on threads; what they find is shown at the cursor."""

    def action_search(self) -> None:
        from tui.app.log_prompt import LogPrompt

        before = self._query.typed if self._query else ""
        self.app.push_screen(LogPrompt("search", HINT, before), self._searched)

    def _searched(self, typed: str | None) -> None:
        if typed is None:
            return
        try:
            self._query = parse(typed)
        except ValueError as error:
            self._say(str(error), "error")
            return
        if self._query is None:
            self._work.stop_search()
            self.redraw()
            return
        self._find(forward=not self._following, here=True)

    def action_next_match(self) -> None:
        self._find(forward=True)

    def action_previous_match(self) -> None:
        self._find(forward=False)

    def _find(self, *, forward: bool, here: bool = False) -> None:
        document = self._document
        if self._query is None:
            self._say("Nothing is searched for. / starts a search.")
        elif not isinstance(document, LineDocument):
            self._say("The log is still being indexed; try again in a moment.")
        else:
            entry = self._entry()
            line = entry.line if entry is not None and entry.line is not None else document.index.count
            line += 1 if forward != here else 0
            self._work.find(document, self._query, line, forward)
            self.redraw()

    def found(self, document: LineDocument, line: int | None, around: bool) -> None:
        """A search has ended at this line of the index, or nowhere; `around`: beyond an end of the log."""
        if document is not self._document or self._query is None:
            return
        if line is None:
            self._say(f"{self._query.typed} is nowhere in the log.", "warning")
            self.redraw()
        elif self.goto_line(self._lines_before() + line + 1) and around:
            self._say("The search went on from the other end.")

    def working(self, what: str) -> None:
        """What takes its time now, for the title; nothing when it is done."""
        if what != self._busy:
            self._busy = what
            self.redraw()

    def action_filter(self) -> None:
        from tui.app.log_prompt import LogPrompt

        before = self._filter.typed if self._filter else ""
        self.app.push_screen(LogPrompt("filter", HINT, before), self._filtered)

    def _filtered(self, typed: str | None) -> None:
        if typed is None:
            return
        try:
            self._set_filter(parse(typed))
        except ValueError as error:
            self._say(str(error), "error")

    def _set_filter(self, query: Query | None) -> None:
        self._filter = query
        self._reopen()

    def action_hide_polls(self) -> None:
        self._hides_polls = not self._hides_polls
        self._reopen()

    def _reopen(self) -> None:
        """Other lines pass now: stay at the line under the cursor where it is among them, else follow."""
        entry = self._entry()
        index = self._index
        self._work.stop()
        if index is None:
            return
        self._open(index)
        line = entry.line if entry is not None else None
        place = None
        if line is not None and isinstance(self._document, LineDocument):
            place = self._document.position_of(line)
        if place is None:
            self.action_bottom()
        else:
            self._put_cursor(place, centred=True)
            self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape is the screen's unless there is a filter or a search to end."""
        return action != "clear" or self._filter is not None or self._query is not None

    def action_clear(self) -> None:
        if self._filter is not None:
            self._set_filter(None)
        else:
            self._work.stop_search()
            self._query = None
            self.redraw()

    def action_next_error(self) -> None:
        self._go_to_error(1)

    def action_previous_error(self) -> None:
        self._go_to_error(-1)

    def _go_to_error(self, way: int) -> None:
        before = self._lines_before()
        errors = sorted({line for line in self._errors if line > before})
        if not errors:
            self._say("No error has been seen in this log.")
            return
        entry = self._entry()
        here = before + entry.line + 1 if entry is not None and entry.line is not None else self._lines_total() + 1
        # The errors inside a traceback are one record with it.
        end = before + entry.block.last + 1 if entry is not None and entry.block is not None and way > 0 else here
        beyond = [line for line in errors if (line > end if way > 0 else line < here)]
        line = (beyond or errors)[0 if way > 0 else -1]
        where = "" if beyond else ", from the other end again"
        if self.goto_line(line):
            self._say(f"Error {errors.index(line) + 1} of {len(errors)}, line {line}{where}.")

    def goto_line(self, number: int) -> bool:
        """Stand on line `number` as the facts count (from 1); False where it cannot be shown."""
        document, line = self._document, number - self._lines_before() - 1
        if not isinstance(document, LineDocument):
            self._say("The log is still being indexed; try again in a moment.")
            return False
        if document.position_of(line) is None and self._filter is not None:
            self._set_filter(None)
        elif document.position_of(line) is None and self._hides_polls:
            self.action_hide_polls()
        document = self._document
        place = document.position_of(line) if isinstance(document, LineDocument) else None
        if place is None or not isinstance(document, LineDocument):
            self._say(f"Line {number} is not in this log.")
            return False
        if not self._placed:
            self._placed = self._window.rows(document, 1)
        self._pause()
        entry = document.entry_at(place)
        self._put_cursor(entry.position if entry is not None and entry.folded else place, centred=True)
        self.redraw()
        return True
