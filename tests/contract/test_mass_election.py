"""A node that leads 10 000 partitions dies: few transactions within seconds, on every store."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from highwater.controller.core.membership import ElectionRules, changing_nodes, fence
from highwater.controller.core.outcome import PENDING_REVISION, Decision
from highwater.controller.image.writer import Fence, MetadataWriter
from highwater.controller.store import keys
from highwater.controller.store.image_store import load
from highwater.controller.store.port import Compare, MetadataStore, Operation, Put, TxnResult
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import NodeId
from highwater.runtime.clock import SystemClock
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import node_state, topic_state

pytestmark = pytest.mark.slow

TOPICS, PARTITIONS = 100, 100
ELECTION_S = 3.0
"""On a busy machine; an idle one needs a fraction of a second."""

RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)


class Counted:
    """Counts the store's transactions."""

    def __init__(self, store: MetadataStore) -> None:
        self._txn = store.txn
        self.sizes: list[int] = []

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        self.sizes.append(len(operations))
        return await self._txn(compares, operations)


@pytest.fixture
async def writer(store: MetadataStore) -> AsyncIterator[MetadataWriter]:
    made = await store.txn((), [Put(key="election/me", value=keys.encode({"address": "a"}))])
    claim = Fence(key="election/me", controller_epoch=made.revision)
    writer = MetadataWriter(
        store, claim, load(await store.range("")), slices=Slices(SystemClock().monotonic_ms)
    )
    tasks = TaskOwner(lambda _name, _error: None)
    tasks.start(writer.run(), name="writer")
    delta = ClusterDelta(
        revision=PENDING_REVISION,
        nodes=tuple(node_state(n) for n in (1, 2, 3)),
        topics=tuple(topic_state(f"t{n}", [(1, 2, 3)] * PARTITIONS) for n in range(TOPICS)),
    )
    await writer.commit(lambda _: Decision(delta=delta, result=None))
    yield writer
    await tasks.close(timeout_s=1)
    writer.close()


async def test_the_death_of_a_node_of_10_000_partitions(
    store: MetadataStore, writer: MetadataWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(store)
    monkeypatch.setattr(store, "txn", counted.txn)
    start = time.perf_counter()
    elections, _ = await writer.commit_in_steps(
        lambda image: changing_nodes(
            image, [fence(image.nodes[NodeId(1)])], RULES, index=writer.index
        )
    )
    took_s = time.perf_counter() - start
    print(f"{elections} elections, {len(counted.sizes)} transactions, {took_s * 1000:.0f} ms")
    assert elections == TOPICS * PARTITIONS
    assert len(counted.sizes) <= 4
    assert took_s < ELECTION_S
    await asyncio.sleep(0)
    stored = load(await store.range("")).image
    assert stored.topics == writer.image.topics
    assert {p.leader for t in stored.topics.values() for p in t.partitions} == {2}
