"""Searches and filters of the log pane, on threads, so that a log of any size never holds up the screen."""

import asyncio
from threading import Event
from typing import Protocol

from textual.worker import Worker

from tui.app.log_document import LineDocument
from tui.app.log_filter import LineFilter
from tui.app.log_query import Query

AT_ONCE_BYTES = 64 * 1024  # so much is filtered without a thread


class Pane(Protocol):
    """Whom the results are told."""

    def found(self, document: LineDocument, line: int | None, around: bool) -> None: ...
    def working(self, what: str) -> None: ...
    def run_worker(self, work: object, *, group: str, exclusive: bool) -> Worker[None]: ...


class LogWork:
    """At most one search and one filter at a time; a new one ends the old one."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._search_stop = Event()
        self._filter: LineFilter | None = None
        self._filtering = False

    def stop(self) -> None:
        """End everything; the threads notice within a slice of the file."""
        self.stop_search()
        if self._filter is not None:
            self._filter.stop.set()
            self._filter = None
        self._filtering = False

    def stop_search(self) -> None:
        """End the search that is under way."""
        self._search_stop.set()
        self._pane.working("")

    def filter(self, passed: LineFilter) -> None:
        """Fill this filter, and keep it filled with `keep_up`."""
        self._filter = passed
        self._advance(passed)

    def keep_up(self, passed: LineFilter) -> None:
        """Look at the lines that are new since."""
        if not self._filtering and passed.waiting_bytes:
            self._advance(passed)

    def _advance(self, passed: LineFilter) -> None:
        if passed.waiting_bytes <= AT_ONCE_BYTES:
            passed.advance()
            return
        self._filtering = True
        self._pane.run_worker(self._filter_all(passed), group="log-filter", exclusive=True)

    async def _filter_all(self, passed: LineFilter) -> None:
        self._pane.working("filtering…")
        try:
            while await asyncio.to_thread(passed.advance):
                pass
        finally:
            if passed is self._filter:
                self._filtering = False
                self._pane.working("")

    def find(self, document: LineDocument, query: Query, line: int, forward: bool) -> None:
        """Find the next match from `line` on, or the last before it, going on from the other end."""
        self._search_stop.set()
        self._search_stop = Event()
        self._pane.run_worker(
            self._search(document, query, line, forward, self._search_stop), group="log-search", exclusive=True
        )

    async def _search(self, document: LineDocument, query: Query, line: int, forward: bool, stop: Event) -> None:
        waiting = asyncio.get_running_loop().call_later(0.2, self._pane.working, "searching…")
        try:
            found, around = await asyncio.to_thread(first_match, document, query, line, forward, stop)
        finally:
            waiting.cancel()
        if not stop.is_set():
            self._pane.working("")
            self._pane.found(document, found, around)


def first_match(document: LineDocument, query: Query, line: int, forward: bool, stop: Event) -> tuple[int | None, bool]:
    """(line, whether the search went on from the other end); the line is None when nothing matches."""
    count = document.index.count
    found = _one_way(document, query, line, forward, stop)
    elsewhere = line > 0 if forward else line < count
    if found is None and elsewhere and not stop.is_set():
        return _one_way(document, query, 0 if forward else count, forward, stop), True
    return found, False


def _one_way(document: LineDocument, query: Query, line: int, forward: bool, stop: Event) -> int | None:
    if query.inverse:
        return _without_match(document, query, line, forward, stop)
    while not stop.is_set():
        found = document.index.find(query.wanted, line, forward=forward, stop=stop)
        if found is None or document.position_of(found) is not None:
            return found
        line = found + 1 if forward else found
    return None


def _without_match(document: LineDocument, query: Query, line: int, forward: bool, stop: Event) -> int | None:
    """The next line in which nothing matches."""
    index, batch = document.index, 500
    while not stop.is_set():
        first = line if forward else max(0, line - batch)
        texts = index.read(first, batch if forward else line - first)
        if not texts:
            return None
        numbers = range(first, first + len(texts))
        for number in numbers if forward else reversed(numbers):
            plain = query.wanted.search(texts[number - first].encode()) is None
            if plain and document.position_of(number) is not None:
                return number
        line = first + len(texts) if forward else first
    return None
