"""A node that leads 10 000 partitions stops: how long until others use the new leaders."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage
from tests.contract.conftest import ETCD_VERSIONS
from tests.support.controller import FakeNode, endpoints_of, started
from tests.support.etcd import EtcdMemberProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOPICS, PARTITIONS = 100, 100
GRACE_MS = 200
TOLD_S = 6.0
"""On a busy machine, with everything in one process; the test prints the time that it took."""


@pytest.fixture(params=["memory", *ETCD_VERSIONS])
async def controller(
    request: pytest.FixtureRequest, etcd_of: Callable[[str], EtcdMemberProcess]
) -> AsyncIterator[ControllerService]:
    settings = {"session_timeout_ms": 30_000, "stream_grace_ms": GRACE_MS, "serve_grpc": True}
    if request.param == "memory":
        service = await started(**settings)
    else:
        where = {"endpoints": (etcd_of(request.param).endpoint,), "prefix": "/mass-failover/"}
        service = await started(driver="etcd", etcd=where, **settings)
    yield service
    await service.stop()


def led_by(image: ClusterImage, node: int) -> int:
    return sum(p.leader == node for t in image.topics.values() for p in t.partitions)


async def test_the_end_of_a_node_of_10_000_partitions(controller: ControllerService) -> None:
    endpoints = endpoints_of(controller)
    client = ControllerClient(endpoints)
    nodes = [await FakeNode(client, f"127.0.0.1:{9300 + n}", f"i{n}", n).join() for n in (1, 2, 3)]
    watches = [
        ClusterWatch(endpoints, watcher=Watcher(node_id=n.node_id, node_epoch=n.epoch))
        for n in nodes
    ]
    for watch in watches:
        watch.start()
    assignment = [pb.Assignment(partition=p, replicas=[1, 2, 3]) for p in range(PARTITIONS)]
    response = pb.CreateTopicsResponse()
    for number in range(TOPICS):
        new = pb.NewTopic(
            name=f"t{number}", partitions=-1, replication_factor=-1, assignments=assignment
        )
        response = await client.create_topics(pb.CreateTopicsRequest(topics=[new]))
    for watch in watches:
        image = await watch.wait_for_revision(response.revision, 20)
        assert led_by(image, 1) == TOPICS * PARTITIONS
    gone, *others = watches
    begun = time.perf_counter()
    await gone.stop()
    async with asyncio.timeout(60):
        for watch in others:
            await watch.wait_for_revision(response.revision + 1, 60)
    took_s = time.perf_counter() - begun
    image = others[0].image
    assert image is not None
    assert (led_by(image, 1), led_by(image, 2)) == (0, TOPICS * PARTITIONS)
    print(f"{TOPICS * PARTITIONS} elections told after {took_s:.2f} s, {GRACE_MS} ms of it grace")
    assert took_s < TOLD_S
    for watch in others:
        await watch.stop()
    await endpoints.close()
