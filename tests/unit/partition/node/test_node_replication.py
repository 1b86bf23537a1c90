"""The connected parts of a node's replication."""

from __future__ import annotations

import asyncio
from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.hop.channels import HopChannels
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from highwater.partition.core.replica_events import LagChecked
from highwater.partition.node.node_replication import NodeReplication
from highwater.runtime.logging import silent_logger
from tests.support.fake_calls import FakeChannel
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, image_says


class Controller:
    """Agrees to every proposal."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[int]]] = []

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float
    ) -> pb.AlterPartitionResponse:
        results = []
        for proposal in request.proposals:
            self.asked.append((request.node_id, list(proposal.isr)))
            results.append(
                pb.AlterPartitionResult(
                    state={
                        "partition": proposal.partition,
                        "leader": request.node_id,
                        "leader_epoch": proposal.leader_epoch,
                        "partition_epoch": proposal.partition_epoch + 1,
                        "replicas": [1, 2],
                        "isr": proposal.isr,
                    }
                )
            )
        return pb.AlterPartitionResponse(results=results)


async def test_a_follower_that_never_comes_leaves_the_isr_and_appends_are_committed(
    tmp_path: Path,
) -> None:
    node, controller = Node(tmp_path), Controller()
    replication = NodeReplication(
        replicas=node.plane.replicas.values,
        client=controller,
        identity=lambda: (1, 7),
        flush=lambda log, done: done(),
        lag_ms_max=60,
        on_bug=lambda _replica, error: node.bugs.append(error),
        on_failure=lambda _name, error: node.bugs.append(error),
        clock=node.clock,
        log=silent_logger(),
        channels=HopChannels(FakeChannel),
    )
    replica = node.add(lead=False)
    replica.port = replication
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    sink = node.append(make_batch(), acks=-1)
    replication.start()
    replica.handle(LagChecked(now_ms=1))
    assert controller.asked == []
    replica.handle(LagChecked(now_ms=60_000))
    async with asyncio.timeout(5):
        while not sink.results:
            await asyncio.sleep(0.01)
    assert sink.codes == {0: 0}
    assert controller.asked == [(1, [1])]
    follow(replica, -1, EPOCH + 1)
    await replication.close()
    assert node.bugs == []


async def test_rates_of_an_image_are_those_of_this_node(tmp_path: Path) -> None:
    node = Node(tmp_path)
    replication = NodeReplication(
        replicas=node.plane.replicas.values,
        client=Controller(),
        identity=lambda: (1, 7),
        flush=lambda log, done: done(),
        lag_ms_max=60,
        on_bug=lambda _replica, error: node.bugs.append(error),
        on_failure=lambda _name, error: node.bugs.append(error),
        clock=node.clock,
        log=silent_logger(),
        channels=HopChannels(FakeChannel),
    )
    leader, follower = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    configs = {NodeId(1): {leader: "5", follower: "6"}, NodeId(2): {leader: "7"}}
    replication.image_changed(ClusterImage(revision=1, cluster_id="test", node_configs=configs))
    assert (replication.leader_throttle.rate, replication.follower_throttle.rate) == (5, 6)
    replication.image_changed(ClusterImage(revision=2, cluster_id="test"))
    assert (replication.leader_throttle.rate, replication.follower_throttle.rate) == (None, None)
    await replication.close()
