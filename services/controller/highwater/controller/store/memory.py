"""The memory driver, for tests and simulation; also the base of the SQLite driver."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from highwater.controller.store.engine import HISTORY_EVENTS_MAX, Engine, Plan
from highwater.controller.store.port import (
    Compare,
    Delete,
    LeaseLostError,
    Operation,
    Snapshot,
    StoreUnavailableError,
    TxnResult,
    WatchBatch,
)
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner

STOP_TIMEOUT_S: Final = 5.0


class MemoryStore:
    """A store in this process's memory. Two controllers on one loop may share it.

    Leases are timed by the loop, so a loop of virtual time drives them too. Subclasses make
    transactions durable by overriding `_persist`.
    """

    def __init__(
        self, *, exclusive: bool = True, history_events_max: int = HISTORY_EVENTS_MAX
    ) -> None:
        """`exclusive` as in the port: False lets controllers compete for leadership by lease."""
        self.exclusive = exclusive
        self._engine = Engine(history_events_max=history_events_max)
        self._open = True
        # A transaction is planned, persisted and applied without another one in between.
        self._writing = asyncio.Lock()
        self._changed: asyncio.Future[None] | None = None
        self._slices = Slices()
        self._ttl_ms: dict[int, int] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        # Ending a lease fails only when the store is closed or broken, which its users notice.
        self._tasks = TaskOwner(lambda _name, _error: None)

    async def start(self) -> None:
        """Ready from the beginning."""

    async def close(self) -> None:
        """Ends watches and timers; the keys stay in memory."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake()
        await self._tasks.close(timeout_s=STOP_TIMEOUT_S)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """See the port."""
        async with self._writing:
            self._ensure_open()
            plan = await self._slices.run(self._engine.planning(compares, operations))
            if plan.revision > self._engine.revision:
                await self._persist(plan)
                await self._slices.run(self._engine.applying(plan))
                self._wake()
            return TxnResult(succeeded=plan.succeeded, revision=plan.revision)

    async def range(self, prefix: str) -> Snapshot:
        """See the port."""
        async with self._writing:
            self._ensure_open()
            return await self._slices.run(self._engine.ranging(prefix))

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """See the port."""
        next_revision = from_revision
        while self._open:
            if next_revision > self._engine.revision:
                await self._wait_for_change()
                continue
            batches = self._engine.since(prefix, next_revision)
            next_revision = self._engine.revision + 1
            for batch in batches:
                yield batch

    async def grant(self, ttl_ms: int) -> int:
        """See the port."""
        self._ensure_open()
        lease = self._engine.grant()
        self._ttl_ms[lease] = ttl_ms
        self._arm(lease)
        return lease

    async def keep_alive(self, lease: int) -> int:
        """See the port."""
        self._ensure_open()
        if not self._engine.has_lease(lease):
            raise LeaseLostError(f"lease {lease} has ended")
        self._arm(lease)
        return self._ttl_ms[lease]

    async def revoke(self, lease: int) -> None:
        """See the port."""
        timer = self._timers.pop(lease, None)
        if timer is not None:
            timer.cancel()
        self._ttl_ms.pop(lease, None)
        keys = self._engine.keys_of_lease(lease)
        self._engine.end_lease(lease)
        await self.txn((), [Delete(key=key) for key in keys])

    async def compact(self, revision: int) -> None:
        """See the port."""
        self._ensure_open()
        self._engine.compact(revision)

    @property
    def revision(self) -> int:
        """The present revision."""
        return self._engine.revision

    async def _persist(self, plan: Plan) -> None:
        """Makes a plan durable; called with the write lock held, before the plan is applied."""

    def _ensure_open(self) -> None:
        if not self._open:
            raise StoreUnavailableError("the store is closed")

    def _arm(self, lease: int) -> None:
        timer = self._timers.pop(lease, None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[lease] = loop.call_later(self._ttl_ms[lease] / 1000, self._expire, lease)

    def _expire(self, lease: int) -> None:
        self._tasks.start(self.revoke(lease), name=f"expire-lease-{lease}")

    async def _wait_for_change(self) -> None:
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
