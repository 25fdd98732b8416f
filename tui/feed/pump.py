"""One thread that folds: sources push facts from anywhere, the screen asks for snapshots, and no lock is needed."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tui.facts import (
    Attached,
    Endpoint,
    Exited,
    Expectation,
    Fact,
    GraphBegin,
    KvPool,
    Launched,
    Mark,
    PoolSummary,
    Problem,
    ServerReady,
    Shutdown,
    Signalled,
    StateChange,
    Traceback,
    WeightsBegin,
    WeightsEnd,
)
from tui.session import Session
from tui.snapshot import Snapshot

# What an operator must see at once; everything else waits for the next second.
URGENT = frozenset((
    Attached, Exited, Expectation, GraphBegin, KvPool, Launched, Mark, PoolSummary, Problem, ServerReady, Shutdown,
    Signalled, StateChange, Traceback, WeightsBegin, WeightsEnd,
))  # fmt: skip

Record = Callable[[Sequence[Fact]], None]


class Pump:
    """Owns a Session on a thread of its own. `record` is called there too, with every batch, in order."""

    def __init__(self, record: Record | None = None) -> None:
        self._session = Session()
        self._record = record
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fold")
        self._endpoint = ""
        self.urgent = asyncio.Event()

    async def push(self, facts: Sequence[Fact]) -> None:
        """Fold a batch. Returns when it is folded, so a fast source is held back instead of filling the memory."""
        if not facts:
            return
        if await asyncio.get_running_loop().run_in_executor(self._thread, self._fold, facts):
            self.urgent.set()

    async def snapshot(self, now: float | None = None) -> Snapshot:
        """The state after everything that was pushed before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._session.snapshot, now)

    async def call(self, work: Callable[[], None]) -> None:
        """Run `work` on the folding thread, between two batches."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def record_to(self, record: Record | None) -> None:
        """Record from the next batch on; None stops recording."""

        def change() -> None:
            self._record = record

        await self.call(change)

    def close(self) -> None:
        """Let the thread go once it has folded what it was given."""
        self._thread.shutdown(wait=False)

    def _fold(self, facts: Sequence[Fact]) -> bool:
        """Whether one of them is urgent."""
        self._session.extend(facts)
        if self._record is not None:
            self._record(facts)
        return sum(map(self._is_urgent, facts)) > 0  # each is looked at: endpoints are compared with the one before

    def _is_urgent(self, fact: Fact) -> bool:
        if isinstance(fact, Endpoint):
            changed, self._endpoint = fact.state != self._endpoint, fact.state
            return changed
        return type(fact) in URGENT
