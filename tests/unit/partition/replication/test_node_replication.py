"""The parts of a node's replication, told of one another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.partition.core.replica_events import LagChecked
from highwater.partition.replication.node_replication import NodeReplication
from highwater.runtime.logging import silent_logger
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
    assert replication.followed_count == 0
    await replication.close()
    assert node.bugs == []
