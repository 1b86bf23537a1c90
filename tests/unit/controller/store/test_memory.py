"""The memory driver beyond the contract suite."""

import asyncio

import pytest

from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import CompactedError, Put, StoreUnavailableError
from highwater.runtime.tasks import TaskOwner


async def test_closing_ends_watches_and_refuses_calls() -> None:
    store = MemoryStore()
    tasks = TaskOwner(lambda _name, _error: None)

    received = asyncio.Event()

    async def watch_to_the_end() -> int:
        batches = 0
        async for _ in store.watch("", 2):
            batches += 1
            received.set()
        return batches

    watching = tasks.start(watch_to_the_end(), name="watch")
    await store.txn((), [Put(key="a", value=b"")])
    await asyncio.wait_for(received.wait(), 1.0)
    await store.close()
    assert await asyncio.wait_for(watching, 1.0) == 1
    with pytest.raises(StoreUnavailableError):
        await store.txn((), [Put(key="a", value=b"")])
    with pytest.raises(StoreUnavailableError):
        await store.range("")
    await store.close()


async def test_compaction() -> None:
    store = MemoryStore()
    first = await store.txn((), [Put(key="a", value=b"1")])
    second = await store.txn((), [Put(key="a", value=b"2")])
    await store.compact(first.revision)
    with pytest.raises(CompactedError):
        await anext(store.watch("", first.revision))
    assert (await anext(store.watch("", second.revision))).revision == second.revision
    await store.close()


async def test_two_watchers_see_the_same() -> None:
    store = MemoryStore()
    one, two = store.watch("", 2), store.watch("", 2)
    tasks = TaskOwner(lambda _name, _error: None)
    reads = [tasks.start(anext(watch), name="read") for watch in (one, two)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await store.txn((), [Put(key="a", value=b"")])
    first, second = await asyncio.gather(*reads)
    assert first == second
    await store.close()
