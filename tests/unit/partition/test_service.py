"""A node in process with a real controller: which images it follows, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.model.cluster import ClusterImage
from highwater.model.ids import LeaderEpoch, NodeId
from highwater.partition.config import PartitionConfig
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.service import PartitionService
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support import controller as support
from tests.support.controller import FakeNode

NODE = NodeId(1)


@pytest.fixture
async def controller() -> AsyncIterator[ControllerService]:
    made = await support.started(heartbeat_interval_ms=10_000, session_timeout_ms=60_000)
    yield made
    await made.stop()


def node(controller: ControllerService, directory: Path) -> PartitionService:
    return PartitionService(
        PartitionConfig(node_id=NODE, log_dirs=(directory,), quota_address=""),
        clock=SystemClock(),
        endpoints=controller.in_process_endpoints(),
        registry=CollectorRegistry(),
        log=silent_logger(),
        embedded=True,
    )


@pytest.fixture
async def service(controller: ControllerService, tmp_path: Path) -> AsyncIterator[PartitionService]:
    made = node(controller, tmp_path)
    await made.start()
    yield made
    await made.stop()


async def create_topic(
    controller: ControllerService, service: PartitionService, **spec: int
) -> None:
    client = ControllerClient(controller.in_process_endpoints())
    await support.image_when(service.watch, lambda image: not image.nodes[NODE].fenced)
    topics = [support.topic("orders", **spec)]
    await client.create_topics(pb.CreateTopicsRequest(instance="default", topics=topics))
    await support.image_when(service.watch, lambda image: image.topic("orders"))


def only(service: PartitionService) -> PartitionReplica:
    (replica,) = service.plane.replicas.values()
    return replica


def next_image(service: PartitionService, *, node_epoch: int) -> ClusterImage:
    """The node leads in a newer epoch; it is named with `node_epoch`."""
    image = service.watch.image
    assert image is not None
    topic = image.topic("orders")
    assert topic is not None
    (state,) = topic.partitions
    state = replace(
        state,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=state.partition_epoch + 1,
    )
    named = replace(image.nodes[NODE], node_epoch=node_epoch)
    return replace(
        image,
        revision=image.revision + 1,
        nodes={**image.nodes, NODE: named},
        topics={topic.topic_id: replace(topic, partitions=(state,))},
    )


async def test_an_image_of_another_incarnation_changes_nothing(
    controller: ControllerService, service: PartitionService
) -> None:
    await create_topic(controller, service)
    replica = only(service)
    epoch = service.membership.node_epoch
    before = replica.leader_epoch
    assert replica.leading
    for other in (epoch - 1, epoch + 1):
        service._image_changed(next_image(service, node_epoch=other), None)
        assert replica.leader_epoch == before
    service._image_changed(next_image(service, node_epoch=epoch), None)
    assert replica.leader_epoch == before + 1


async def test_an_image_that_was_early_is_carried_out_with_the_registration(
    controller: ControllerService, service: PartitionService
) -> None:
    await create_topic(controller, service)
    replica = only(service)
    before = replica.leader_epoch
    epoch = service.membership.node_epoch + 1
    early = next_image(service, node_epoch=epoch)
    service.watch._publish(early, None)
    assert replica.leader_epoch == before
    service.membership.node_epoch = epoch
    service._registered(epoch)
    assert replica.leader_epoch == before + 1
    assert replica.core.node_epoch == epoch


async def test_the_second_start_proves_what_the_first_one_left(
    controller: ControllerService, tmp_path: Path
) -> None:
    first = node(controller, tmp_path)
    await first.start()
    incarnation = first.membership.incarnation
    assert first.logs.lineage == (incarnation,)
    await first.stop()
    second = node(controller, tmp_path)
    await second.start()
    assert second.membership.incarnation != incarnation
    await second.stop()
    third = node(controller, tmp_path)
    assert await asyncio.to_thread(third.logs.open) is not None
    assert third.logs.lineage == (second.membership.incarnation,)
    third.logs.close()


async def test_the_last_node_stops_at_once(controller: ControllerService, tmp_path: Path) -> None:
    service = node(controller, tmp_path)
    await service.start()
    await create_topic(controller, service)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await service.stop()
    assert loop.time() - began_s < 1


async def test_a_node_among_others_stops_when_they_lead(
    controller: ControllerService, tmp_path: Path
) -> None:
    service = node(controller, tmp_path)
    await service.start()
    client = ControllerClient(controller.in_process_endpoints())
    await FakeNode(client, "10.0.0.2:1", "other", 2).join()
    await create_topic(controller, service, factor=2, partitions=2)
    assert service.replicas.leader_count == 1
    await service.stop()
    image = service.watch.image
    assert image is not None
    assert image.nodes[NODE].draining
    topic = image.topic("orders")
    assert topic is not None
    assert [state.leader for state in topic.partitions] == [2, 2]
    assert service.replicas.leader_count == 0, "it knew that before it left"
