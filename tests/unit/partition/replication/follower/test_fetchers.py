"""A node's fetchers: a stream to each leader, opened and ended as leaders change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.hop.channels import HopChannels
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NodeId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower import fetchers as module
from highwater.partition.replication.follower.fetchers import ReplicaFetchers
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, lead
from tests.unit.partition.data_plane.test_replica_stalled import SlowDisk
from tests.unit.partition.replication.channel import Call, Channel, answer_to, until


def state(node: int, incarnation: str = "first", address: str = "") -> NodeState:
    return NodeState(
        node_id=NodeId(node),
        node_epoch=9,
        address=address or f"node-{node}:1",
        rack="",
        incarnation=incarnation,
    )


def image(*nodes: NodeState) -> ClusterImage:
    return ClusterImage(revision=1, cluster_id="test", nodes={n.node_id: n for n in nodes})


class Follower(Node):
    """Node 1, whose replicas use real fetchers over fake channels."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.channels: list[Channel] = []
        self.flushes: list[object] = []
        self.failures: list[BaseException] = []
        self.fetchers = ReplicaFetchers(
            identity=lambda: (1, 50),
            flush=lambda _log, done: self.flushes.append(done),
            on_bug=lambda _replica, error: self.bugs.append(error),
            on_failure=lambda _name, error: self.failures.append(error),
            clock=self.clock,
            log=silent_logger(),
            channels=HopChannels(self._open_channel),  # type: ignore[arg-type]
        )

    def _open_channel(self, address: str, _socket: object) -> Channel:
        self.channels.append(Channel(address))
        return self.channels[-1]

    def add_follower(
        self, partition: int = 0, leader: int = 2, epoch: int = EPOCH, **spec: object
    ) -> PartitionReplica:
        replica = self.add(partition, lead=False, **spec)
        replica.port = self.fetchers  # type: ignore[assignment]  # Proposes nothing here.
        follow(replica, leader, epoch)
        return replica

    async def requested(self, count: int, channel: int = -1) -> Call:
        await until(lambda: self.channels)
        return await self.channels[channel].requested(count)


@pytest.fixture
async def node(tmp_path: Path):
    made = Follower(tmp_path)
    yield made
    await made.fetchers.close()
    assert made.failures == []
    assert made.bugs == []
    assert all(channel.is_closed for channel in made.channels)


async def test_one_stream_to_each_leader(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2), state(3)))
    for partition, leader in enumerate((2, 3, 2)):
        node.add_follower(partition, leader)
    assert len(node.fetchers) == 3
    assert node.fetchers.leaders == {2, 3}
    assert [channel.address for channel in node.channels] == ["node-2:1", "node-3:1"]
    call = await node.requested(1, channel=0)
    assert [asked.partition for asked in call.asked] == [0, 2]
    call = await node.requested(1, channel=1)
    assert [asked.partition for asked in call.asked] == [1]


async def test_a_leader_is_waited_for_until_an_image_names_its_address(node: Follower) -> None:
    node.add_follower()
    node.fetchers.image_changed(image(state(3)))
    assert node.fetchers.leaders == frozenset()
    node.fetchers.image_changed(image(state(3), state(2)))
    await node.requested(1)
    assert node.fetchers.leaders == {2}


async def test_no_requests_without_a_leader(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower()
    await node.requested(1)
    follow(replica, -1, EPOCH + 1)
    assert len(node.fetchers) == 0
    follow(replica, 2, EPOCH + 2)
    call = await node.requested(2)
    assert [asked.leader_epoch for asked in call.asked] == [EPOCH + 2]
    assert list(call.requests[-1].forgotten) == []


async def test_a_moved_leader_is_followed_and_the_old_one_forgets(
    node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.05)
    node.fetchers.image_changed(image(state(2), state(3)))
    moved = node.add_follower(0)
    node.add_follower(1)
    old = await node.requested(1)
    follow(moved, 3, EPOCH + 1)
    new = await node.requested(1, channel=1)
    assert [asked.leader_epoch for asked in new.asked] == [EPOCH + 1]
    old.answer(1)
    await node.requested(2, channel=0)
    assert [key[1] for key in old.requests[-1].forgotten] == [0]
    follow(moved, 2, EPOCH + 2)
    follow(moved, 3, EPOCH + 3)
    await asyncio.sleep(0.1)
    assert node.fetchers.leaders == {2, 3}, "neither was without partitions for long"
    node.fetchers.stop_following(moved)
    await until(lambda: node.channels[1].is_closed)
    assert node.fetchers.leaders == {2}
    assert not node.channels[0].is_closed


async def test_another_incarnation_or_address_is_another_channel(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    node.add_follower()
    await node.requested(1)
    node.fetchers.image_changed(image(replace(state(2), fenced=False)))
    assert len(node.channels) == 1
    node.fetchers.image_changed(image(state(2, incarnation="second")))
    await node.requested(1)
    await until(lambda: node.channels[0].is_closed)
    node.fetchers.image_changed(image(state(2, incarnation="second", address="elsewhere:1")))
    call = await node.requested(1)
    assert [channel.address for channel in node.channels] == ["node-2:1"] * 2 + ["elsewhere:1"]
    assert len(call.asked) == 1


async def test_a_refusal_is_asked_again_after_a_while(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    node.add_follower()
    call = await node.requested(1)
    refused = answer_to(call.asked[0], error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    began = asyncio.get_running_loop().time()
    call.answer(1, [refused])
    await node.requested(2)
    assert asyncio.get_running_loop().time() - began > module.RETRY_S * 0.9
    assert len(call.asked) == 1


async def test_a_new_epoch_does_not_wait_for_the_retry(
    node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 60)
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower()
    call = await node.requested(1)
    call.answer(1, [answer_to(call.asked[0], error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)])
    await asyncio.sleep(0.02)
    follow(replica, 2, EPOCH + 1)
    await node.requested(2)
    assert node.fetchers._retries == {}


async def test_late_rows_are_asked_for_when_they_are_written(node: Follower) -> None:
    disk = SlowDisk()
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower(environment=disk)
    call = await node.requested(1)
    call.answer(1, [answer_to(call.asked[0], make_batch(base_offset=0))])
    await until(lambda: disk.jobs)
    node.fetchers._retry(replica)  # Neither a retry nor a new epoch asks for it before.
    follow(replica, 2, EPOCH + 1)
    await asyncio.sleep(module.RETRY_S + 0.05)
    assert len(call.requests) == 1
    disk.finish()
    await node.requested(2)
    assert [(asked.leader_epoch, asked.fetch_offset) for asked in call.asked] == [(EPOCH + 1, 1)]


async def test_rows_are_flushed_before_they_are_acknowledged(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower(flush_messages=1)
    call = await node.requested(1)
    call.answer(1, [answer_to(call.asked[0], make_batch(base_offset=0))])
    await until(lambda: node.flushes)
    node.fetchers._retry(replica)
    await asyncio.sleep(module.RETRY_S + 0.05)
    assert len(call.requests) == 1
    replica.log.durability.flush()
    node.flushes.pop()()
    await node.requested(2)
    assert call.asked[0].fetch_offset == 1


async def test_becoming_leader_ends_the_stream(
    node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.02)
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower()
    call = await node.requested(1)
    lead(replica, EPOCH + 1)
    call.answer(1, [answer_to(call.asked[0], make_batch())])
    await until(lambda: node.channels[0].is_closed)
    assert len(node.fetchers) == 0


async def test_another_replica_takes_the_place_of_one_that_retired(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    old = node.add_follower()
    await node.requested(1)
    old.retire()
    assert len(node.fetchers) == 0
    new = node.add_follower(epoch=EPOCH + 1)
    node.fetchers.stop_following(old)
    call = await node.requested(2)
    assert [asked.leader_epoch for asked in call.asked] == [EPOCH + 1]
    assert len(node.fetchers) == 1
    assert new.core.may_fetch(EPOCH + 1)


async def test_after_close_nothing_is_followed(node: Follower) -> None:
    node.fetchers.image_changed(image(state(2)))
    replica = node.add_follower()
    await node.requested(1)
    await node.fetchers.close()
    follow(replica, 2, EPOCH + 1)
    node.fetchers.image_changed(image(state(2, incarnation="second")))
    assert len(node.fetchers) == 0
    assert len(node.channels) == 1
