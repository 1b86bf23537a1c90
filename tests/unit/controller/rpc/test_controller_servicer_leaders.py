"""Elections, reassignments and hand-overs on request."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerCallError, ControllerClient
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import ClusterImage, PartitionState
from tests.support.controller import (
    image_when,
    node,
    partition_of,
    topic,
)


async def on_both(client: ControllerClient, **configs: str) -> bytes:
    """Creates topic "t" on nodes 1 and 2, which are alive; returns its id."""
    for number in (1, 2):
        await node(client, number).join()
    wish = topic(
        "t", -1, -1, assignments=[pb.Assignment(partition=0, replicas=[1, 2])], configs=configs
    )
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[wish]))
    return created.results[0].topic.topic_id


async def alter(client: ControllerClient, name: str, value: str, topic_id: bytes = b"") -> None:
    """Sets a config on the topic, or on all nodes."""
    kind = pb.CONFIG_RESOURCE_TYPE_TOPIC if topic_id else pb.CONFIG_RESOURCE_TYPE_NODE
    change = pb.ConfigChange(type=kind, topic_id=topic_id, node_id=-1, set={name: value})
    answer = await client.alter_configs(pb.AlterConfigsRequest(changes=[change]))
    assert [e.error_code for e in answer.errors] == [0]


async def test_elections_on_request(client: ControllerClient, watch: ClusterWatch) -> None:
    topic_id = await on_both(client)
    one = node(client, 1)
    one.epoch = (await image_when(watch, lambda i: i.topic("t"))).nodes[1].node_epoch  # type: ignore[index]
    wanted = [
        pb.TopicPartitions(topic_id=topic_id, partitions=[0, 7]),
        pb.TopicPartitions(topic_id=bytes(16), partitions=[0]),
    ]

    async def elect(kind: int, **fields: Any) -> list[tuple[int, int]]:
        response = await client.elect_leaders(pb.ElectLeadersRequest(type=kind, **fields))  # type: ignore[arg-type]
        return [(r.partition, r.error.error_code) for r in response.results]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    assert await elect(pb.ELECTION_TYPE_PREFERRED, topics=wanted) == [
        (0, not_needed), (7, unknown), (0, unknown),
    ]  # fmt: skip
    assert await elect(pb.ELECTION_TYPE_UNCLEAN, topics=wanted[:1]) == [
        (0, not_needed), (7, unknown),
    ]  # fmt: skip
    await one.beat(wants_shutdown=True)
    assert await elect(pb.ELECTION_TYPE_PREFERRED, all_partitions=True) == [
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    ]
    with pytest.raises(ControllerCallError, match="INVALID_ARGUMENT"):
        await elect(pb.ELECTION_TYPE_UNSPECIFIED, all_partitions=True)


@pytest.mark.parametrize("of_topic", [True, False])
async def test_a_minimum_changes_with_its_partitions(
    client: ControllerClient, watch: ClusterWatch, of_topic: bool
) -> None:
    topic_id = await on_both(client)
    seen: list[tuple[int, bool]] = []

    def note(image: ClusterImage, _: object) -> None:
        state = image.topic("t")
        if state is not None:
            name = "min.insync.replicas"
            set_there = name in state.configs or name in image.cluster_configs
            seen.append((state.partitions[0].partition_epoch, set_there))

    watch.subscribe(note)
    await alter(client, "min.insync.replicas", "2", topic_id if of_topic else b"")
    await image_when(watch, lambda i: partition_of(i, "t").partition_epoch == 1)
    assert set(seen) <= {(0, False), (1, True)}, "in no image the one without the other"


@pytest.mark.parametrize("of_topic", [True, False])
async def test_unclean_elections_are_held_when_they_are_allowed(
    client: ControllerClient, watch: ClusterWatch, of_topic: bool
) -> None:
    topic_id = await on_both(client)
    image = await image_when(watch, lambda i: i.topic("t"))
    epoch = image.nodes[1].node_epoch  # type: ignore[index]
    only_1 = pb.IsrProposal(topic_id=topic_id, isr=[1])
    shrunk = await client.alter_partition(
        pb.AlterPartitionRequest(node_id=1, node_epoch=epoch, proposals=[only_1])
    )
    assert not shrunk.results[0].error.error_code
    failed = pb.OfflineReplicas(topic_id=topic_id, partitions=[0])
    one = node(client, 1)
    one.epoch = epoch
    await one.beat(offline_replicas=[failed])
    await image_when(watch, lambda i: partition_of(i, "t").leader == -1)
    name = "unclean.leader.election.enable"
    await alter(client, name, "true", topic_id if of_topic else b"")
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    assert partition_of(image, "t").isr == (2,)


async def test_reassignments_begin_end_and_are_cancelled(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    members = {n: await node(client, n).join() for n in (1, 2, 3)}
    assigned = [pb.Assignment(partition=0, replicas=[1, 2])]
    await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("t", -1, -1, assignments=assigned)])
    )
    topic_id = (await image_when(watch, lambda i: i.topic("t"))).topic("t").topic_id  # type: ignore[union-attr]

    async def move(**fields: Any) -> int:
        one = pb.PartitionReassignment(topic_id=topic_id, partition=0, **fields)
        response = await client.alter_partition_reassignments(
            pb.AlterPartitionReassignmentsRequest(
                reassignments=[one], allow_replication_factor_change=True
            )
        )
        await watch.wait_for_revision(response.revision, 5.0)
        return response.errors[0].error_code

    def now() -> PartitionState:
        assert watch.image is not None
        return partition_of(watch.image, "t")

    assert await move(cancel=True) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert await move(replicas=[2, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await move(replicas=[3, 2]) == 0
    assert (now().replicas, now().adding_replicas, now().removing_replicas) == (
        (3, 2, 1), (3,), (1,),
    )  # fmt: skip
    assert await move(cancel=True) == 0
    assert set(now().replicas) == {1, 2}
    assert await move(replicas=[3, 2]) == 0
    proposal = pb.IsrProposal(
        topic_id=topic_id,
        partition=0,
        leader_epoch=now().leader_epoch,
        partition_epoch=now().partition_epoch,
        isr=[1, 2, 3],
    )
    done = await client.alter_partition(
        pb.AlterPartitionRequest(node_id=1, node_epoch=members[1].epoch, proposals=[proposal])
    )
    assert done.results[0].error.error_code == 0
    state = done.results[0].state
    assert (list(state.isr), state.leader) == ([1, 2, 3], 1), "the leader hands over first"
    async with asyncio.timeout(5):
        while not (asked := (await members[1].beat()).hand_over):
            await asyncio.sleep(0.01)
    assert [(one.partition, one.leader_epoch, one.successor) for one in asked] == [
        (0, state.leader_epoch, 3)
    ]
    answer = pb.HandedOver(
        topic_id=topic_id, partition=0, leader_epoch=state.leader_epoch, ready=True
    )
    assert not (await members[1].beat(handed_over=[answer])).hand_over
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 3)
    moved = partition_of(image, "t")
    assert (moved.replicas, moved.isr, moved.leader_epoch) == (
        (3, 2),
        (2, 3),
        state.leader_epoch + 1,
    )


async def test_a_leader_hands_over_to_the_preferred_one(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    one, _ = await node(client, 1).join(), await node(client, 2).join()
    assigned = [pb.Assignment(partition=n, replicas=[1, 2]) for n in (0, 1)]
    await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("t", -1, -1, assignments=assigned)])
    )
    topic_id = (await image_when(watch, lambda i: i.topic("t"))).topic("t").topic_id  # type: ignore[union-attr]
    moves = [
        pb.PartitionReassignment(topic_id=topic_id, partition=n, replicas=[2, 1]) for n in (0, 1)
    ]
    await client.alter_partition_reassignments(
        pb.AlterPartitionReassignmentsRequest(
            reassignments=moves, allow_replication_factor_change=True
        )
    )
    await image_when(watch, lambda i: partition_of(i, "t").replicas == (2, 1))
    wanted = [pb.TopicPartitions(topic_id=topic_id, partitions=[0, 1, 7])]
    election = asyncio.create_task(
        client.elect_leaders(
            pb.ElectLeadersRequest(
                type=pb.ELECTION_TYPE_PREFERRED, topics=wanted, timeout_ms=1, hand_over_ms=20_000
            )
        )
    )
    async with asyncio.timeout(5):
        while not (asked := (await one.beat()).hand_over):
            await asyncio.sleep(0.01)
    answers = [
        pb.HandedOver(
            topic_id=topic_id,
            partition=one_asked.partition,
            leader_epoch=one_asked.leader_epoch,
            ready=one_asked.partition == 0,
        )
        for one_asked in asked
    ]
    await one.beat(handed_over=answers)
    results = (await election).results
    assert [(r.partition, r.error.error_code) for r in results] == [
        (0, 0),
        (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    assert [p.leader for p in image.topic("t").partitions] == [2, 1], "who lags is not elected"  # type: ignore[union-attr]


async def test_a_leader_that_was_not_asked_leads_on(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    """Its preferred replica has come into the ISR while the election waited for another partition."""
    one, _ = await node(client, 1).join(), await node(client, 2).join()
    assigned = [pb.Assignment(partition=n, replicas=[1, 2]) for n in (0, 1)]
    await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("t", -1, -1, assignments=assigned)])
    )
    topic_id = (await image_when(watch, lambda i: i.topic("t"))).topic("t").topic_id  # type: ignore[union-attr]
    moves = [
        pb.PartitionReassignment(topic_id=topic_id, partition=n, replicas=[2, 1]) for n in (0, 1)
    ]
    await client.alter_partition_reassignments(
        pb.AlterPartitionReassignmentsRequest(
            reassignments=moves, allow_replication_factor_change=True
        )
    )
    image = await image_when(watch, lambda i: partition_of(i, "t").replicas == (2, 1))
    state = image.topic("t").partitions[1]  # type: ignore[union-attr]

    async def isr(*nodes: int) -> None:
        nonlocal state
        proposal = pb.IsrProposal(
            topic_id=topic_id,
            partition=1,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=nodes,
        )
        done = await client.alter_partition(
            pb.AlterPartitionRequest(node_id=1, node_epoch=one.epoch, proposals=[proposal])
        )
        assert not done.results[0].error.error_code
        (found,) = done.results
        state = replace(state, partition_epoch=found.state.partition_epoch)

    await isr(1)
    wanted = [pb.TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    election = asyncio.create_task(
        client.elect_leaders(
            pb.ElectLeadersRequest(
                type=pb.ELECTION_TYPE_PREFERRED, topics=wanted, timeout_ms=1, hand_over_ms=20_000
            )
        )
    )
    async with asyncio.timeout(5):
        while not (asked := (await one.beat()).hand_over):
            await asyncio.sleep(0.01)
    assert [each.partition for each in asked] == [0]
    await isr(1, 2)
    ready = pb.HandedOver(
        topic_id=topic_id, partition=0, leader_epoch=asked[0].leader_epoch, ready=True, successor=2
    )
    await one.beat(handed_over=[ready])
    results = (await election).results
    assert [(r.partition, r.error.error_code) for r in results] == [
        (0, 0),
        (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    assert [p.leader for p in image.topic("t").partitions] == [2, 1]  # type: ignore[union-attr]
