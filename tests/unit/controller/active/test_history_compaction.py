"""The task that compacts the store's history."""

import asyncio
from collections.abc import Callable

import pytest

from highwater.controller.active.history_compaction import HistoryCompaction
from highwater.controller.service import ControllerService
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import (
    CompactedError,
    Put,
    StoreUnavailableError,
    StoreWentBackError,
)
from highwater.runtime.logging import silent_logger
from tests.support.controller import controller_config


class Lines:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **_: object) -> None:
        self.events.append(event)

    warning = info


async def write(store: MemoryStore) -> int:
    return (await store.txn((), [Put(key="k", value=b"")])).revision


async def reaches(store: MemoryStore, revision: int) -> bool:
    """Whether a watch can begin at that revision."""
    try:
        await anext(store.watch("", revision))
    except CompactedError:
        return False
    return True


def compaction(store: MemoryStore, revision: int, interval_ms: int) -> HistoryCompaction:
    return HistoryCompaction(
        store, from_revision=revision, interval_ms=interval_ms, log=silent_logger()
    )


async def test_a_round_compacts_up_to_the_round_before() -> None:
    store = MemoryStore()
    first = await write(store)
    second = await write(store)
    rounds = compaction(store, first, 1)
    third = await write(store)
    await rounds.round()
    assert not await reaches(store, first)
    assert await reaches(store, second), "it is younger than an interval, maybe"
    fourth = await write(store)
    await rounds.round()
    assert not await reaches(store, third)
    assert await reaches(store, fourth)
    assert len((await store.range("")).entries) == 1


async def test_the_first_round_comes_after_an_interval_and_others_follow() -> None:
    store = MemoryStore()
    revisions = [await write(store) for _ in range(3)]
    running = asyncio.ensure_future(compaction(store, revisions[0], 200).run())
    await asyncio.sleep(0.02)
    assert await reaches(store, revisions[0])
    async with asyncio.timeout(10):
        while await reaches(store, revisions[-2]):
            await asyncio.sleep(0.02)
    running.cancel()


@pytest.mark.parametrize("error", [StoreWentBackError("older"), StoreUnavailableError("away")])
async def test_a_store_that_is_away_is_asked_again_and_one_that_went_back_is_not(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store = MemoryStore()
    first, second = await write(store), await write(store)
    compact: Callable[[int], object] = store.compact
    calls: list[int] = []

    async def fails_first(revision: int) -> None:
        calls.append(revision)
        if len(calls) == 1:
            raise error
        await compact(revision)  # type: ignore[misc]

    monkeypatch.setattr(store, "compact", fails_first)
    log = Lines()
    task = HistoryCompaction(store, from_revision=first, interval_ms=5, log=log)  # type: ignore[arg-type]
    running = asyncio.ensure_future(task.run())
    if isinstance(error, StoreWentBackError):
        with pytest.raises(StoreWentBackError):
            await asyncio.wait_for(running, 5)
        assert calls == [first]
        return
    async with asyncio.timeout(10):
        while len(calls) < 3:
            await asyncio.sleep(0.01)
    running.cancel()
    assert calls[:3] == [first, first, second], "nothing newer is forgotten for the failure"
    assert log.events[:2] == ["cannot_compact_store", "store_compacted"]


async def test_the_interval_can_be_disabled() -> None:
    store = MemoryStore()
    revision = await write(store)
    await asyncio.wait_for(compaction(store, revision, 0).run(), 5)
    assert await reaches(store, revision)


@pytest.mark.parametrize("driver", ["memory", "etcd"])
async def test_a_controller_compacts_an_etcd_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    config = controller_config(driver=driver)
    short = config.etcd.model_copy(update={"compact_after_ms": 20})
    store = MemoryStore()
    compacted: list[int] = []

    async def note(revision: int) -> None:
        compacted.append(revision)

    monkeypatch.setattr(store, "compact", note)
    service = ControllerService(
        config.model_copy(update={"etcd": short}), store=store, serve_grpc=False
    )
    await service.start()
    active = await service.wait_active(5)
    # They write to the store without changing the image.
    for _ in range(3):
        await active.allocate_producer_ids()
    await asyncio.sleep(0.3)
    if driver == "etcd":
        assert compacted[0] == active.image.controller_epoch
        assert compacted[-1] == store.revision > active.image.revision
    else:
        assert compacted == []
    await service.stop()
