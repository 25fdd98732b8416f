"""Where the facts of all sources are folded, and whom the screen asks for snapshots."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TypeVar

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

T = TypeVar("T")
Record = Callable[[Sequence[Fact]], None]


class Pump:
    """Owns a Session, folded into under a lock. `record` is called there too, with every batch, in order.

    Made on the event loop: what is there awaits, and a source that is on a thread of its own calls `fold`.
    """

    def __init__(self, record: Record | None = None) -> None:
        self._session = Session()
        self._record = record
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fold")
        self._loop = asyncio.get_running_loop()
        self._endpoint = ""
        self.urgent = asyncio.Event()

    def fold(self, facts: Sequence[Fact]) -> None:
        """Fold a batch, on any thread but the loop's. Returns when it is folded, which holds a fast source back."""
        if not facts:
            return
        with self._lock:
            self._session.extend(facts)
            if self._record is not None:
                self._record(facts)
            # Each is looked at: endpoints are compared with the one before.
            urgent = sum(map(self._is_urgent, facts)) > 0
        if urgent:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for news
                self._loop.call_soon_threadsafe(self.urgent.set)

    async def push(self, facts: Sequence[Fact]) -> None:
        """Fold a batch that was found on the loop."""
        await self._loop.run_in_executor(self._thread, self.fold, facts)

    async def snapshot(self, now: float | None = None) -> Snapshot:
        """The state after everything that was pushed before."""
        return await self.call(partial(self._session.snapshot, now))

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` gives, done between two batches and off the loop."""
        return await self._loop.run_in_executor(self._thread, self._between, work)

    async def record_to(self, record: Record | None) -> None:
        """Record from the next batch on; None stops recording."""

        def change() -> None:
            self._record = record

        await self.call(change)

    def close(self) -> None:
        """Let the thread go once it has done what it was given."""
        self._thread.shutdown(wait=False)

    def _between(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    def _is_urgent(self, fact: Fact) -> bool:
        if isinstance(fact, Endpoint):
            changed, self._endpoint = fact.state != self._endpoint, fact.state
            return changed
        return type(fact) in URGENT
