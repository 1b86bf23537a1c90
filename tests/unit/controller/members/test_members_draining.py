"""Which replicas may lead after proposals of ISRs, and nodes that drain."""

import asyncio

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.members.heartbeats import NodeHeartbeat
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.ids import NodeId
from highwater.runtime.tasks import TaskOwner
from tests.support.controller import (
    FakeNode,
    die,
    gateway_state,
    image_when,
    node,
    partition_of,
    topic,
)


async def test_draining_moves_leadership(client: ControllerClient, watch: ClusterWatch) -> None:
    one = await node(client, 1).join()
    await node(client, 2).join()
    await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("both", 4, 2), topic("single", 4, 1)])
    )
    answer = await one.beat(wants_shutdown=True)
    assert answer.may_shut_down
    image = await image_when(watch, lambda i: i.nodes[1].draining)
    assert {p.leader for p in image.topic("both").partitions} == {2}  # type: ignore[union-attr]
    assert {p.isr for p in image.topic("both").partitions} == {(2,)}  # type: ignore[union-attr]


async def pair(client: ControllerClient, *, min_isr: str = "1") -> tuple[FakeNode, FakeNode, bytes]:
    """Nodes 1 and 2, and the id of topic "t" with one partition on both, led by 1."""
    one, two = await node(client, 1).join(), await node(client, 2).join()
    wish = topic(
        "t", -1, -1, assignments=[pb.Assignment(partition=0, replicas=[1, 2])],
        configs={"min.insync.replicas": min_isr},
    )  # fmt: skip
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[wish], timeout_ms=1))
    return one, two, created.results[0].topic.topic_id


async def propose(
    client: ControllerClient, watch: ClusterWatch, leader: FakeNode, isr: list[int]
) -> None:
    """Sends what a leader sends when its followers lag or have caught up."""
    response = await client.alter_partition(
        pb.AlterPartitionRequest(
            node_id=leader.node_id,
            node_epoch=leader.epoch,
            proposals=[await _proposal(watch, isr)],
        )
    )
    (result,) = response.results
    assert not result.error.error_code, result.error.message
    epoch = result.state.partition_epoch
    await image_when(watch, lambda i: partition_of(i, "t").partition_epoch == epoch)


async def _proposal(watch: ClusterWatch, isr: list[int]) -> pb.IsrProposal:
    image = await image_when(watch, lambda i: i.topic("t"))
    state = partition_of(image, "t")
    return pb.IsrProposal(
        topic_id=image.topic("t").topic_id,  # type: ignore[union-attr]
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=isr,
        isr_node_epochs=[image.nodes[n].node_epoch for n in isr],  # type: ignore[index]
    )


@pytest.mark.parametrize(("lineage", "eligible"), [(("a1",), (1,)), (("b1",), ()), ((), ())])
async def test_only_a_node_that_lost_nothing_stays_eligible(
    client: ControllerClient,
    watch: ClusterWatch,
    endpoints: ControllerEndpoints,
    lineage: tuple[str, ...],
    eligible: tuple[int, ...],
) -> None:
    one, _, _ = await pair(client, min_isr="2")
    await die(endpoints, one)
    again = node(client, 1, "b")
    again.lineage = lineage
    assert (await again.register()).error.error_code == 0
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    assert partition_of(image, "t").isr == (2,)
    assert partition_of(image, "t").eligible_leaders == eligible


async def test_a_draining_node_may_stop_when_all_members_have_the_image(
    client: ControllerClient,
) -> None:
    one, _, _ = await pair(client)
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    assert not (await one.beat(wants_shutdown=True)).may_shut_down, "the gateway sends it requests"
    await client.heartbeat(
        pb.HeartbeatRequest(node_id=-1, gateway_id="g1", applied_revision=1 << 40)
    )
    behind = await one.beat(1, wants_shutdown=True)
    assert not behind.may_shut_down, "it has not heard itself that it leads nothing"
    assert (await one.beat(wants_shutdown=True)).may_shut_down


async def test_a_follower_that_catches_up_takes_over_from_a_draining_leader(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    one, _, _ = await pair(client)
    await propose(client, watch, one, [1])
    assert (await one.beat(wants_shutdown=True)).may_shut_down, "nobody could take over"
    image = await image_when(watch, lambda i: i.nodes[1].draining)
    assert partition_of(image, "t").leader == 1
    await propose(client, watch, one, [1, 2])
    await one.beat(wants_shutdown=True)
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    assert partition_of(image, "t").isr == (2,)


async def test_a_drained_node_comes_back(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    one, two, topic_id = await pair(client)
    await one.beat(wants_shutdown=True)
    await image_when(watch, lambda i: partition_of(i, "t").leader == 2)
    await die(endpoints, one)
    again = node(client, 1, "b")
    again.lineage = (one.incarnation,)
    await again.join()
    image = await image_when(watch, lambda i: not i.nodes[1].fenced)
    assert not image.nodes[1].draining  # type: ignore[index]
    await propose(client, watch, two, [2, 1])
    wanted = [pb.TopicPartitions(topic_id=topic_id, partitions=[0])]
    elected = await client.elect_leaders(
        pb.ElectLeadersRequest(type=pb.ELECTION_TYPE_PREFERRED, topics=wanted, timeout_ms=1)
    )
    assert [r.error.error_code for r in elected.results] == [0]
    await image_when(watch, lambda i: partition_of(i, "t").leader == 1)


async def test_a_drain_of_a_former_incarnation_does_not_count(
    controller: ControllerService,
    client: ControllerClient,
    watch: ClusterWatch,
    endpoints: ControllerEndpoints,
) -> None:
    one, _, _ = await pair(client)
    assert (await one.beat(wants_shutdown=True)).may_shut_down
    revision = (await image_when(watch, lambda i: i.nodes[1].draining)).revision
    await die(endpoints, one)
    again = await node(client, 1, "b").join()
    active = controller.active
    assert active is not None
    beat = NodeHeartbeat(
        node_id=NodeId(1),
        node_epoch=again.epoch,
        applied_revision=revision,
        wants_shutdown=True,
    )
    tasks = TaskOwner(lambda _name, _error: None)
    given_up = tasks.start(active.members.heartbeat(beat), name="heartbeat")
    await asyncio.sleep(0)
    given_up.cancel()
    await image_when(watch, lambda i: i.nodes[1].draining)
    assert not (await active.members.heartbeat(beat)).may_shut_down, "it does not know it yet"
    await tasks.close(timeout_s=1)
