"""A restored store: who notices it, who refuses it, and how an operator accepts it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active.store_past import StorePast
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence
from highwater.controller.service import ControllerService
from highwater.controller.store.head import read_head
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import StoreWentBackError
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.runtime.logging import silent_logger
from tests.support.controller import endpoints_of, node, started, topic


class Site:
    """One store, and one controller on it after the other; `watch` is a member that stays."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.service: ControllerService | None = None
        self.watch: ClusterWatch | None = None

    async def start(self, *, accept_store_loss: int = 0) -> ControllerClient:
        await self.stop()
        self.store = _copy(self.store)
        service = await started(store=self.store, accept_store_loss=accept_store_loss)
        self.service = service
        return ControllerClient(endpoints_of(service))

    async def stop(self) -> None:
        if self.service is not None:
            await self.service.stop()
            self.service = None

    def save(self) -> MemoryStore:
        return _copy(self.store)

    def endpoints(self) -> ControllerEndpoints:
        assert self.service is not None
        return endpoints_of(self.service)


def _copy(store: MemoryStore) -> MemoryStore:
    made = MemoryStore()
    made._engine.load(store.revision, store._engine.range("").entries)
    return made


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.stop()


async def create(client: ControllerClient, name: str) -> int:
    response = await client.create_topics(pb.CreateTopicsRequest(topics=[topic(name, 2)]))
    assert response.results[0].error.error_code == 0
    return response.revision


async def seen_by_a_member(endpoints: ControllerEndpoints, revision: int) -> tuple[int, int, str]:
    watch = ClusterWatch(endpoints)
    watch.start()
    image = await watch.wait_for_revision(revision, 5)
    await watch.stop()
    return image.revision, image.controller_epoch, image.cluster_id


async def ask(
    endpoints: ControllerEndpoints, revision: int, controller_epoch: int, cluster_id: str
) -> object:
    seen = pb.SeenImage(revision=revision, controller_epoch=controller_epoch, cluster_id=cluster_id)
    request = pb.WatchClusterRequest(from_revision=revision, cluster_id=cluster_id, seen=seen)
    return await anext(aiter(endpoints.current().metadata.WatchCluster(request)))


async def test_a_controller_that_took_over_goes_on_from_the_same_revision(site: Site) -> None:
    client = await site.start()
    await node(client, 1).join()
    revision = await create(client, "a")
    seen = await seen_by_a_member(site.endpoints(), revision)
    client = await site.start()
    assert site.service is not None
    active = site.service.active
    assert active is not None
    assert active.image.revision == revision, "elections are no change of the image"
    await active.check_seen(seen[0], controller_epoch=seen[1])
    assert await create(client, "b") > revision


async def test_a_member_has_seen_a_revision_that_the_store_lacks(site: Site) -> None:
    client = await site.start()
    first = await node(client, 1).join()
    await create(client, "before")
    saved = site.save()
    seen = await seen_by_a_member(site.endpoints(), await create(client, "lost"))
    site.store = saved
    # Elections, tokens and members without newer images write more revisions than were lost.
    for _ in range(3):
        client = first.client = await site.start()
    await first.beat()  # It does not tell which image it has seen.
    await create(client, "written-in-ignorance")
    service = site.service
    assert service is not None
    assert service.active is not None
    assert service.active.image.revision > seen[0]
    with pytest.raises(Exception, match="put back to an older state"):
        await ask(site.endpoints(), *seen)
    async with asyncio.timeout(5):
        while not service._refuses_to_lead():
            await asyncio.sleep(0.01)
    assert service.active is None


async def test_a_node_registered_later_than_the_store_knows(site: Site) -> None:
    client = await site.start()
    await node(client, 2).join()
    saved = site.save()
    await create(client, "lost")
    first = await node(client, 1).join()
    site.store = saved
    client = await site.start()
    service = site.service
    assert service is not None
    assert service.active is not None
    refused = await client.register_node(
        pb.RegisterNodeRequest(
            node_id=1,
            address="127.0.0.1:9301",
            incarnation="again",
            previous_node_epoch=first.epoch,
            cluster_id=service.active.image.cluster_id,
        )
    )
    assert refused.error.error_code == ErrorCode.INVALID_REGISTRATION
    assert f"accept_store_loss={first.epoch}" in refused.error.message


async def test_another_clusters_node_says_nothing_of_this_store(site: Site) -> None:
    client = await site.start()
    refused = await client.register_node(
        pb.RegisterNodeRequest(
            node_id=1, incarnation="x", previous_node_epoch=1 << 40, cluster_id="another"
        )
    )
    assert refused.error.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert site.service is not None
    assert not site.service._refuses_to_lead()


async def test_the_loss_is_accepted(site: Site) -> None:
    client = await site.start()
    one = await node(client, 1).join()
    kept = await create(client, "kept")
    first_ids = await client.allocate_producer_ids(pb.AllocateProducerIdsRequest(node_id=-1))
    saved = site.save()
    await create(client, "lost")
    lost_ids = await client.allocate_producer_ids(pb.AllocateProducerIdsRequest(node_id=-1))
    await one.beat(wants_shutdown=True)
    assert site.service is not None
    assert site.service.active is not None
    before = site.service.active.image
    site.store = saved
    client = await site.start(accept_store_loss=before.revision)
    active = site.service.active
    assert active is not None
    assert [t.name for t in active.image.topics.values()] == ["kept"]
    assert active.image.revision > before.revision > kept
    assert active.image.controller_epoch > before.revision
    # A member that saw everything continues; its epochs are older than all new ones.
    await active.check_seen(before.revision, controller_epoch=before.controller_epoch)
    for topic_id, state in active.image.topics.items():
        for partition, was in zip(
            state.partitions, before.topics[topic_id].partitions, strict=True
        ):
            assert partition.leader_epoch > was.leader_epoch
            assert partition.partition_epoch > was.partition_epoch
    new_ids = await client.allocate_producer_ids(pb.AllocateProducerIdsRequest(node_id=-1))
    assert new_ids.start >= lost_ids.start + lost_ids.length > first_ids.start
    assert (await read_head(site.store)).raise_epochs == 0


async def test_accepting_a_loss_has_no_effect_on_a_newer_store(site: Site) -> None:
    client = await site.start()
    await node(client, 1).join()
    revision = await create(client, "a")
    await site.start(accept_store_loss=revision - 1)
    assert site.service is not None
    assert site.service.active is not None
    image = site.service.active.image
    assert image.revision == revision
    assert {p.leader_epoch for t in image.topics.values() for p in t.partitions} == {0}


async def test_a_process_refuses_a_store_older_than_its_own_image() -> None:
    store = MemoryStore()
    past = StorePast(store, accepted_revision=0, log=silent_logger())
    await past.verify()
    past.note(40)
    past.note(7)
    with pytest.raises(StoreWentBackError, match="accept_store_loss=40"):
        await past.verify()
    accepting = StorePast(store, accepted_revision=40, log=silent_logger())
    accepting.note(40)
    await accepting.verify()
    accepting.note(41)
    with pytest.raises(StoreWentBackError):
        await accepting.verify()


async def test_only_the_elected_controller_moves_the_head() -> None:
    store = MemoryStore()
    past = StorePast(store, accepted_revision=40, log=silent_logger())
    head = await read_head(store)
    with pytest.raises(NotActiveError):
        await past.accept(Fence(key="election/nobody", controller_epoch=7), head)
    assert store.revision == head.revision
