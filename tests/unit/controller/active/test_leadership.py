"""Leader election: several candidates on one store, each with its own clock."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from highwater.controller.active.leadership import MARGIN_MS, Leadership
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence
from highwater.controller.store import keys
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import (
    CompactedError,
    CreateRevisionIs,
    Delete,
    Put,
    Snapshot,
    StoreUnavailableError,
    StoreWentBackError,
    WatchBatch,
)
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import Logger, make_logger, silent_logger
from highwater.runtime.tasks import TaskOwner

TTL_MS = 1_500


class Candidate:
    """A candidate that records its terms."""

    def __init__(
        self, name: str, store: MemoryStore, tasks: TaskOwner, log: Logger | None = None
    ) -> None:
        self.fences: list[Fence] = []
        self.serving = False
        self.fail = asyncio.Event()
        self.told_after: list[str] = []
        """The controller that it names as active, in the turn after each of its terms."""
        self.went_back = False
        self.ended: dict[str, asyncio.Event] = {}
        self.leadership = Leadership(
            store,
            candidate=name,
            address=f"{name}:1",
            lease_ttl_ms=TTL_MS,
            clock=SystemClock(),
            log=log or silent_logger(),
            verify=self._verify,
            gone=self._gone,
        )
        self.task = tasks.start(self.leadership.run(self._serve), name=name)

    async def _verify(self) -> None:
        if self.went_back:
            raise StoreWentBackError("lost")

    async def _gone(self, address: str) -> None:
        await self.ended.setdefault(address, asyncio.Event()).wait()

    async def _serve(self, fence: Fence) -> None:
        self.fences.append(fence)
        self.serving = True
        try:
            await self.fail.wait()
            self.fail.clear()
            raise NotActiveError
        finally:
            self.serving = False
            tell = self.told_after.append
            asyncio.get_running_loop().call_soon(lambda: tell(self.leadership.active_address))


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    owner = TaskOwner(lambda _name, _error: None)
    yield owner
    await owner.close(timeout_s=5)


async def until(condition: object, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


async def test_the_oldest_candidate_leads_and_others_stand_by(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    two = Candidate("two", store, tasks)
    await until(lambda: two.leadership.active_address == "one:1")
    assert one.leadership.active_address == "one:1"
    await asyncio.sleep(2 * TTL_MS / 1000)
    assert one.serving, "the lease is renewed"
    assert not two.serving
    one.task.cancel()
    await until(lambda: two.serving, 1.0)
    assert two.fences[0].controller_epoch > one.fences[0].controller_epoch
    await store.close()


async def test_a_controller_whose_term_ended_does_not_name_itself_active(tasks: TaskOwner) -> None:
    """Callers stay with a controller that names itself."""
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    one.fail.set()
    await until(lambda: one.told_after)
    assert one.told_after == [""]
    await store.close()


async def test_a_candidate_that_falls_silent_is_replaced(
    tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    fence = one.fences[0]
    two = Candidate("two", store, tasks)
    await until(lambda: two.leadership.active_address == "one:1")

    async def unreachable(_lease: int) -> int:
        raise StoreUnavailableError("cut off")

    lease_of_one = next(iter(store._ttl_ms))
    original = store.keep_alive
    monkeypatch.setattr(
        store,
        "keep_alive",
        lambda lease: unreachable(lease) if lease == lease_of_one else original(lease),
    )
    await until(lambda: not one.leadership.holds())
    assert not two.serving, "the old leader steps down before the new one can lead"
    await until(lambda: two.serving)
    late = await store.txn(
        (CreateRevisionIs(key=fence.key, revision=fence.controller_epoch),),
        [Put(key="x", value=b"")],
    )
    assert not late.succeeded, "the store refuses what the old leader still sends"
    await store.close()


async def test_a_leader_that_was_refused_stands_again(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    one.fail.set()
    await until(lambda: len(one.fences) == 2)
    assert one.fences[1].controller_epoch > one.fences[0].controller_epoch
    await store.close()


async def test_an_exclusive_store_needs_no_lease(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=True)
    first = Candidate("only", store, tasks)
    await until(lambda: first.serving)
    assert store._ttl_ms == {}
    assert first.leadership.holds()
    first.task.cancel()
    await until(first.task.done)
    second = Candidate("only", store, tasks)
    await until(lambda: second.serving)
    assert second.fences[0].controller_epoch > first.fences[0].controller_epoch
    await store.close()


async def test_a_key_left_by_a_kill_does_not_block_an_exclusive_store(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=True)
    await store.txn((), [Put(key="election/only", value=b'{"v":1,"address":"old"}')])
    candidate = Candidate("only", store, tasks)
    await until(lambda: candidate.serving)
    assert candidate.leadership.active_address == "only:1"
    await store.close()


async def test_a_leader_that_ended_is_not_waited_for(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    two = Candidate("two", store, tasks)
    await until(lambda: "one:1" in two.ended)
    two.ended["one:1"].set()
    await until(lambda: two.serving, TTL_MS / 3_000)
    fence = one.fences[0]
    late = await store.txn(
        (CreateRevisionIs(key=fence.key, revision=fence.controller_epoch),),
        [Put(key="x", value=b"")],
    )
    assert not late.succeeded, "wherever that leader is, it cannot write"
    await until(lambda: not one.serving)
    await until(lambda: one.leadership.active_address == "two:1", 2.0)
    assert two.serving
    await store.close()


async def test_a_leader_whose_key_is_removed_stands_again(tasks: TaskOwner) -> None:
    """Its lease lasts, and it has nothing to write, so nothing else would show the removal."""
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    await store.txn((), [Put(key=f"{one.fences[0].key}b", value=b"")])
    await store.txn((), [Delete(key=f"{one.fences[0].key}b")])
    await store.compact(store.revision)
    await asyncio.sleep(0.7)
    assert one.serving, "another key was removed"
    await store.txn((), [Delete(key=one.fences[0].key)])
    await until(lambda: len(one.fences) == 2, 2.0)
    assert one.fences[1].controller_epoch > one.fences[0].controller_epoch
    await store.close()


async def test_a_standby_whose_history_was_compacted_reads_afresh_and_stands_by(
    tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait for changes that the watch can no longer deliver."""
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    told = io.StringIO()
    original = store.watch
    asked_for: list[int] = []

    def watch(prefix: str, from_revision: int) -> AsyncGenerator[WatchBatch, None]:
        if prefix == keys.ELECTION:
            asked_for.append(from_revision)
            if len(asked_for) == 1:
                return original(prefix, 1)
        return original(prefix, from_revision)

    monkeypatch.setattr(store, "watch", watch)
    await store.compact(store.revision)
    two = Candidate("two", store, tasks, log=make_logger(stream=told))
    await until(lambda: "one:1" in two.ended)
    stood = [e for e in (await store.range(keys.ELECTION)).entries if "two" in e.key]
    await until(lambda: len(asked_for) == 2)
    assert "election_history_compacted" in told.getvalue()
    assert asked_for[1] == store.revision + 1, "the range was read again"
    assert two.leadership.active_address == "one:1"
    await asyncio.sleep(0.2)
    stands = [e for e in (await store.range(keys.ELECTION)).entries if "two" in e.key]
    assert [e.create_revision for e in stands] == [e.create_revision for e in stood], "as before"
    one.task.cancel()
    await until(lambda: two.serving, 1.0)
    await store.close()


async def test_a_standby_takes_over_though_the_leaders_end_was_compacted(
    tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first the store cannot be read either."""
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    leads = one.fences[0].key
    original = store.watch, store.range
    waits, gone, tries = asyncio.Event(), asyncio.Event(), [1, 2]

    async def compacted(_prefix: str, _revision: int) -> AsyncGenerator[WatchBatch, None]:
        waits.set()
        await gone.wait()
        raise CompactedError(store.revision)
        yield

    async def range_(prefix: str) -> Snapshot:
        if gone.is_set() and tries:
            tries.pop()
            raise StoreUnavailableError("not now")
        return await original[1](prefix)

    monkeypatch.setattr(store, "watch", compacted)
    monkeypatch.setattr(store, "range", range_)
    two = Candidate("two", store, tasks)
    await until(waits.is_set)
    one.task.cancel()
    await asyncio.wait((one.task,))
    assert all(e.key != leads for e in (await original[1](keys.ELECTION)).entries)
    gone.set()
    await until(lambda: two.serving, 3.0)
    assert tries == []
    await store.close()


async def test_a_leader_that_comes_back_does_not_wait_for_itself(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=False)
    lease = await store.grant(60_000)
    value = b'{"v":1,"address":"one:1"}'
    await store.txn((), [Put(key=f"election/one-{lease:x}", value=value, lease=lease)])
    await store.txn((), [Put(key=f"election/one-b-{lease:x}", value=value, lease=lease)])
    one = Candidate("one", store, tasks)
    await until(lambda: "one:1" in one.ended)
    assert not one.serving, "the key of another candidate stays"
    one.ended["one:1"].set()
    await until(lambda: one.serving)
    await store.close()


async def test_no_candidate_stands_on_a_restored_store(tasks: TaskOwner) -> None:
    store = MemoryStore(exclusive=False)
    one = Candidate("one", store, tasks)
    await until(lambda: one.serving)
    one.went_back = True
    one.fail.set()
    await until(lambda: one.leadership.refuses)
    assert (await store.range("election/")).entries == ()
    one.went_back = False
    await until(lambda: len(one.fences) == 2)
    assert not one.leadership.refuses
    await store.close()


def test_the_margin_leaves_time_to_step_down() -> None:
    assert 0 < MARGIN_MS < TTL_MS
