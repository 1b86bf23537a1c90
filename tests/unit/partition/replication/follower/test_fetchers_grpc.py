"""A follower of a node with a real server, which dies and restarts, over both transports."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from highwater.hop.channels import hop_channels
from highwater.hop.settings import HopSettings, HopTransport
from highwater.model.cluster import ClusterImage, NodeState
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.fetchers import ReplicaFetchers
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import ManualClock, make_batch, open_log
from tests.unit.gateway.clients.partition_node import PartitionNode, until
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says

FOLLOWER = 2


class Follower:
    """Node 2, which has partitions of the leader's topic."""

    def __init__(self, directory: Path, transport: HopTransport) -> None:
        self.directory = directory
        self.failures: list[object] = []
        self.clock = ManualClock()
        self.fetchers = ReplicaFetchers(
            identity=lambda: (FOLLOWER, 70),
            flush=lambda log, done: (log.durability.flush(), done()),
            on_bug=lambda _replica, error: self.failures.append(error),
            on_failure=self._failed,
            channels=hop_channels(HopSettings(transport=transport), self._failed),
            clock=self.clock,
            log=silent_logger(),
        )
        self.replica = self.add(0)
        self.log = self.replica.log

    def _failed(self, _name: str, error: BaseException) -> None:
        self.failures.append(error)

    def add(self, partition: int) -> PartitionReplica:
        return PartitionReplica(
            topic_id=TOPIC,
            topic_name="orders",
            partition=partition,
            log=open_log(self.directory / f"orders-{partition}"),
            log_dir=0,
            policy=AppendPolicy(),
            clock=self.clock,
            on_log_failure=lambda _replica, error: self.failures.append(error),
            node=FOLLOWER,
            node_epoch=70,
            port=self.fetchers,  # type: ignore[arg-type]  # Proposes nothing here.
        )

    def hear(self, leader: NodeState) -> None:
        image = ClusterImage(revision=1, cluster_id="test", nodes={leader.node_id: leader})
        self.fetchers.image_changed(image)


@pytest.fixture(params=HopTransport)
def transport(request: pytest.FixtureRequest) -> HopTransport:
    return request.param


@pytest.fixture
async def leader(tmp_path: Path, transport: HopTransport):
    made = PartitionNode(tmp_path / "leader", transport)
    made.directory.mkdir()
    image_says(made.add(lead=False), leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    await made.start()
    yield made
    await made.kill()
    assert made.bugs == []


@pytest.fixture
async def follower(tmp_path: Path, transport: HopTransport):
    made = Follower(tmp_path, transport)
    image_says(made.replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    yield made
    await made.fetchers.close()
    assert made.failures == []


async def test_records_arrive_and_are_acknowledged(
    leader: PartitionNode, follower: Follower
) -> None:
    follower.hear(leader.state())
    sinks = [leader.append(make_batch(value=b"v" * 100_000), acks=-1) for _ in range(30)]
    await until(lambda: all(sink.codes == {0: 0} for sink in sinks))
    assert stored(follower.replica) == stored(leader.plane.replicas[TOPIC, 0])
    await until(lambda: follower.replica.high_watermark == 30)


async def test_a_leader_that_comes_back_is_found_again(
    leader: PartitionNode, follower: Follower
) -> None:
    follower.hear(leader.state())
    first = leader.append(make_batch(), acks=-1)
    await until(lambda: first.results)
    await leader.kill()
    second = leader.append(make_batch(), acks=-1)
    await asyncio.sleep(0.2)
    assert second.results == []
    await leader.start()
    await until(lambda: second.codes == {0: 0})
    await leader.kill()
    leader.port = 0
    await leader.start()
    third = leader.append(make_batch(), acks=-1)
    follower.hear(leader.state(incarnation="next"))
    await until(lambda: third.codes == {0: 0})
    assert follower.log.log_end_offset == 3


async def test_a_new_partition_does_not_wait_for_quiet_ones(
    leader: PartitionNode, follower: Follower
) -> None:
    """Otherwise the leader would hold the request for half a second."""
    follower.hear(leader.state())
    first = leader.append(make_batch(), acks=-1)
    await until(lambda: first.results and follower.replica.high_watermark == 1)
    loop = asyncio.get_running_loop()
    took_s = []
    for partition in range(1, 6):
        await asyncio.sleep(0.1)  # The other partitions have no more news.
        began = loop.time()
        for replica in (leader.add(partition, lead=False), follower.add(partition)):
            image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
        sink = leader.append(make_batch(), partition=partition, acks=-1)
        await until(lambda told=sink: told.results)
        took_s.append(loop.time() - began)
    # By chance, at most one of them came at the end of a wait.
    assert sorted(took_s)[2] < 0.2
