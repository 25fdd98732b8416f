"""The history as the runs screen asks for it: `tui.port.History` of one state directory, in worker threads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tui.errors import SpecdeckError
from tui.port import Feed, RunComparison, RunRow
from tui.runs import listing, summaries
from tui.runs.comparing import LETTERS, Comparison, compare, economy_lines
from tui.runs.listing import Row, shown
from tui.runs.runtext import plain, run_lines
from tui.runs.store import Run, RunStore
from tui.runs.summary import Summary
from tui.runs.sweeproom import SweepRoom
from tui.snapshot import Amount, GpuBar, Source

# How long opening the screen may wait for summaries that are missing; the next opening finds more of them.
SUMMARIES_S = 0.15


class CannotCompareError(SpecdeckError):
    """These runs cannot be put side by side."""


class RunHistory:
    """`changed` is called after a baseline was pinned or unpinned."""

    def __init__(self, store: RunStore, changed: Callable[[], Awaitable[None]] | None = None) -> None:
        self._store = store
        self._changed = changed
        self.sweeps = SweepRoom(store)

    async def runs(self, limit: int | None = None) -> tuple[RunRow, ...]:
        return await asyncio.to_thread(self._rows, limit)

    async def details(self, name: str) -> str:
        try:
            return await asyncio.to_thread(self._details, name)
        except SpecdeckError as error:
            return str(error)

    async def pin(self, name: str, baseline: bool) -> str | None:
        def work() -> None:
            run = self._store.load(name)
            if baseline:
                listing.pin(run, self._store)
            else:
                listing.unpin(run)

        failed = await _tried(work)
        if failed is None and self._changed is not None:
            await self._changed()
        return failed

    async def annotate(self, name: str, text: str) -> str | None:
        return await _tried(lambda: listing.annotate(self._store.load(name), text))

    async def delete(self, name: str) -> str | None:
        return await _tried(lambda: listing.delete(self._store.load(name)))

    async def compare(self, names: Sequence[str]) -> RunComparison | str:
        try:
            return await asyncio.to_thread(self._compare, names)
        except SpecdeckError as error:
            return str(error)

    def replay(self, name: str) -> Feed:
        from tui.runs.replay import ReplayFeed  # which has a history itself

        return ReplayFeed(self._store.load(name))

    def _rows(self, limit: int | None) -> tuple[RunRow, ...]:
        return tuple(map(row_of, listing.rows(self._store, limit, limit_s=SUMMARIES_S)))

    def _details(self, name: str) -> str:
        run = self._store.load(name)
        if run.damaged is not None:
            return f"{name} is damaged: {run.damaged}."
        summary = summaries.ensure(run) or summaries.make(run)
        return "\n".join(line.removeprefix("  ") for line in run_lines(summary, listing.notes_of(run.path)))

    def _compare(self, names: Sequence[str]) -> RunComparison:
        found = [self._summary(name) for name in dict.fromkeys(names)]
        if len(found) == 1:
            pinned = listing.baseline(self._store, found[0].model)
            if pinned is None or pinned.run == found[0].run:
                raise CannotCompareError("Mark a second run (space), or pin one as the baseline (b).")
            found.insert(0, pinned)
        if len(found) > len(LETTERS):
            raise CannotCompareError(f"{len(found)} runs are too many to stand side by side: mark fewer.")
        return comparison_of(compare(found))

    def _summary(self, name: str) -> Summary:
        run = self._store.load(name)
        summary = summaries.ensure(run)
        if summary is None:
            raise CannotCompareError(f"{name} cannot be compared: {run.damaged or 'its log cannot be read'}.")
        return summary


def row_of(row: Row) -> RunRow:
    """A row of the listing as the screen draws it."""
    run, summary = row.run, row.summary
    common: dict[str, Any] = {
        "name": row.name,
        "profile": row.profile,
        "started_at": row.started_at or None,
        "outcome": row.outcome,
        "note": row.notes.text,
        "baseline": row.notes.baseline,
        "damaged": run.damaged,
        "alive": run.exited is None and run.alive,
        "knobs": _knobs(run, summary),
    }
    if summary is None:
        return RunRow(**common)
    return RunRow(
        **common,
        verdict=summary.verdict or "",
        changed=row.change,
        algorithm=summary.algorithm,
        ready_s=summary.ready_s,
        kv_tokens=summary.kv_tokens,
        free_gib=summary.free_gib,
        best_tok_s=summary.best_tok_s,
        speeds=tuple((one.speed.batch, one.speed.tok_s) for one in summary.speeds),
        accept_len=summary.accept_len,
    )


def comparison_of(found: Comparison) -> RunComparison:
    """A comparison as the screen draws it."""
    return RunComparison(
        runs=tuple(run.run for run in found.runs),
        outcomes=tuple(
            run.outcome + (f": {plain(run.verdict_title)}" if run.verdict_title else "") for run in found.runs
        ),
        knobs=tuple((name, tuple(map(shown, values))) for name, values in found.knobs.items()),
        bars=tuple(_bar(found, i) for i in range(len(found.runs))),
        kv_tokens=tuple(run.kv_tokens for run in found.runs),
        speeds=tuple(one.text for one in found.speeds) or ("Nothing was measured in any of these runs.",),
        economy=tuple(economy_lines(found)),
        ready=found.ready,
    )


def _bar(found: Comparison, index: int) -> GpuBar:
    sizes = {name: values[index] for name, values in found.memory.items()}
    known = sum(gib for gib in sizes.values() if gib is not None)
    total_mib = found.runs[index].machine.total_mib
    return GpuBar(
        index=index,
        name=found.runs[index].run,
        total_gib=max(known, total_mib / 1024) if total_mib else known or None,
        segments={name: _amount(gib) for name, gib in sizes.items()},
    )


def _amount(gib: float | None) -> Amount:
    return Amount() if gib is None else Amount(gib=gib, source=Source.MEASURED)


def _knobs(run: Run, summary: Summary | None) -> str:
    knobs = summary.knobs if summary is not None else run.knobs
    return " ".join(f"{name}={value}" for name, value in knobs.items())


async def _tried(work: Callable[[], None]) -> str | None:
    try:
        await asyncio.to_thread(work)
    except SpecdeckError as error:
        return str(error)
    return None
