"""The task that moves leadership back to preferred leaders."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from highwater.controller.active import leader_balance, leader_batches
from highwater.controller.active.leader_balance import LeaderBalance
from highwater.controller.core.outcome import PENDING_REVISION, Decision
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence, MetadataWriter
from highwater.controller.store import keys
from highwater.controller.store.image_store import load
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import Put, StoreUnavailableError
from highwater.model.cluster import ClusterDelta, TopicState
from highwater.model.ids import NodeId
from highwater.runtime.logging import silent_logger
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import node_state, topic_state

STEADY_MS = 50


class AtOnce:
    """Every leader hands over at once, except those that lag."""

    def __init__(self) -> None:
        self.lagging: set[PartitionKey] = set()

    async def carry_out(self, moves, elect, timeout_s=0.0):
        ready = frozenset(move.key for move in moves) - self.lagging
        if ready:
            await elect(ready)
        return frozenset(self.lagging)


class Away:
    """A topic whose preferred leader is 1 and whose leader is 2, and the task."""

    def __init__(self, writer: MetadataWriter) -> None:
        self.writer = writer
        self.balance = LeaderBalance(
            writer, dict, AtOnce(), interval_ms=STEADY_MS, log=silent_logger(), steady_ms=STEADY_MS
        )

    def topic(self) -> TopicState:
        (topic,) = self.writer.image.topics.values()
        return topic

    def leaders(self) -> list[int]:
        return [int(p.leader) for p in self.topic().partitions]

    async def put(self, topic: TopicState) -> None:
        delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic,))
        await self.writer.commit(lambda _: Decision(delta=delta, result=None))


@pytest.fixture
async def away() -> AsyncIterator[Away]:
    store = MemoryStore()
    made = await store.txn((), [Put(key="election/me", value=keys.encode({"address": "a"}))])
    fence = Fence(key="election/me", controller_epoch=made.revision)
    writer = MetadataWriter(store, fence, load(await store.range("")), slices=Slices(lambda: 0))
    tasks = TaskOwner(lambda _name, _error: None)
    tasks.start(writer.run(), name="writer")
    topic = topic_state("t", [(1, 2)] * 7)
    led_by_2 = tuple(replace(p, leader=NodeId(2)) for p in topic.partitions)
    delta = ClusterDelta(
        revision=PENDING_REVISION,
        topics=(replace(topic, partitions=led_by_2),),
        nodes=(node_state(1), node_state(2)),
    )
    await writer.commit(lambda _: Decision(delta=delta, result=None))
    yield Away(writer)
    await tasks.close(timeout_s=1)
    writer.close()


async def test_leaders_come_back_in_batches(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_balance, "BATCH_PARTITIONS", 3)
    monkeypatch.setattr(leader_batches, "BATCH_PAUSE_S", 0)
    revision = away.writer.image.revision
    assert await away.balance.round() == 7
    assert away.leaders() == [1] * 7
    assert away.writer.image.revision == revision + 3, "3, 3 and 1"
    assert await away.balance.round() == 0


async def test_a_round_has_a_limit(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_batches, "ELECTIONS_MAX", 5)
    assert await away.balance.round() == 5
    assert sorted(away.leaders()) == [1] * 5 + [2] * 2
    assert await away.balance.round() == 2


async def test_partitions_that_change_meanwhile_wait_for_the_next_round(away: Away) -> None:
    looking = asyncio.ensure_future(away.balance.round())
    await asyncio.sleep(STEADY_MS / 5_000)
    topic = away.topic()
    first, *others = topic.partitions
    touched = replace(first, partition_epoch=first.partition_epoch + 2)
    await away.put(replace(topic, partitions=(touched, *others)))
    assert await looking == 6
    assert away.leaders() == [2] + [1] * 6
    assert await away.balance.round() == 1


async def test_balancing_continues_after_a_store_failure(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    async def broken() -> int:
        rounds.append(1)
        raise NotActiveError if len(rounds) == 3 else StoreUnavailableError("no")

    monkeypatch.setattr(away.balance, "round", broken)
    with pytest.raises(NotActiveError):
        await asyncio.wait_for(away.balance.run(), 5)
    assert len(rounds) == 3


async def test_the_interval_can_be_disabled(away: Away) -> None:
    never = LeaderBalance(away.writer, dict, AtOnce(), interval_ms=0, log=silent_logger())
    await asyncio.wait_for(never.run(), 1)
    assert away.leaders() == [2] * 7
