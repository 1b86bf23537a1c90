"""Admin calls to the servicer."""

import asyncio
from typing import Any

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.watch import ClusterWatch
from highwater.model.ids import NodeId
from tests.support.controller import (
    gateway_state,
    image_when,
    make_instance,
    node,
    topic,
)


async def test_create_describe_delete(client: ControllerClient, watch: ClusterWatch) -> None:
    await node(client, 1).join()
    response = await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("access_log", 6, configs={"retention.ms": "1000"})])
    )
    assert response.results[0].error.error_code == 0
    assert len(response.results[0].topic.topic_id) == 16
    image = await watch.wait_for_revision(response.revision, 5.0)
    state = image.topic("access_log")
    assert state is not None
    assert [p.leader for p in state.partitions] == [1] * 6
    assert state.configs == {"retention.ms": "1000"}
    gone = await client.delete_topics(pb.DeleteTopicsRequest(topic_ids=[state.topic_id, bytes(16)]))
    assert [e.error_code for e in gone.errors] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert (await watch.wait_for_revision(gone.revision, 5.0)).topic("access_log") is None


async def test_results_stand_in_the_order_of_the_request(client: ControllerClient) -> None:
    await node(client, 1).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("there")]))
    response = await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("a"), topic("there"), topic("b", 0), topic("c", 1, 2)])
    )
    assert [r.error.error_code for r in response.results] == [
        0,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]


async def test_validate_only_changes_nothing(client: ControllerClient, watch: ClusterWatch) -> None:
    await node(client, 1).join()
    response = await client.create_topics(
        pb.CreateTopicsRequest(topics=[topic("t", 3)], validate_only=True)
    )
    assert len(response.results[0].topic.partitions) == 3
    real = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 3)]))
    assert real.results[0].error.error_code == 0


async def test_a_large_topic_arrives_whole(client: ControllerClient, watch: ClusterWatch) -> None:
    await node(client, 1).join()
    sizes: list[int] = []
    watch.subscribe(
        lambda image, _: sizes.append(sum(len(t.partitions) for t in image.topics.values()))
    )
    response = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("big", 350)]))
    await watch.wait_for_revision(response.revision, 5.0)
    assert set(sizes) == {0, 350}, "no watcher sees a part of a topic"


async def test_alter_partition_by_compare_and_set(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    nodes = {n: await node(client, n).join() for n in (1, 2)}
    await client.create_topics(
        pb.CreateTopicsRequest(
            topics=[topic("t", -1, -1, assignments=[pb.Assignment(partition=0, replicas=[1, 2])])]
        )
    )
    image = await image_when(watch, lambda i: i.topic("t"))
    state = image.topic("t")
    assert state is not None

    async def alter(sender: int, epoch: int, isr: list[int]) -> pb.AlterPartitionResult:
        response = await client.alter_partition(
            pb.AlterPartitionRequest(
                node_id=sender,
                node_epoch=nodes[sender].epoch,
                proposals=[
                    pb.IsrProposal(
                        topic_id=state.topic_id,
                        partition_epoch=epoch,
                        isr=isr,
                        isr_node_epochs=[nodes[n].epoch for n in isr],
                    )
                ],
            )
        )
        return response.results[0]

    shrunk = await alter(1, 0, [1])
    assert (list(shrunk.state.isr), shrunk.state.partition_epoch) == ([1], 1)
    assert (await alter(1, 0, [1, 2])).error.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (await alter(2, 1, [1, 2])).error.error_code == ErrorCode.INVALID_REQUEST
    assert list((await alter(1, 1, [1, 2])).state.isr) == [1, 2]
    nodes[1].epoch -= 1
    assert (await alter(1, 2, [1])).error.error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_producer_ids_come_in_blocks(client: ControllerClient) -> None:
    one = await node(client, 1).join()
    request = pb.AllocateProducerIdsRequest(node_id=1, node_epoch=one.epoch)
    first, second = [await client.allocate_producer_ids(request) for _ in range(2)]
    assert (first.start, first.length) == (0, 1000)
    assert second.start == 1000


async def test_configs_partitions_and_instances(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 2)]))
    topic_id = created.results[0].topic.topic_id
    changed = await client.alter_configs(
        pb.AlterConfigsRequest(
            changes=[
                pb.ConfigChange(
                    type=pb.CONFIG_RESOURCE_TYPE_TOPIC,
                    topic_id=topic_id,
                    set={"segment.bytes": "2000000"},
                ),
                pb.ConfigChange(
                    type=pb.CONFIG_RESOURCE_TYPE_NODE, node_id=-1, set={"log.retention.ms": "5"}
                ),
                pb.ConfigChange(
                    type=pb.CONFIG_RESOURCE_TYPE_NODE, node_id=1, set={"log.roll.ms": "2"}
                ),
            ]
        )
    )
    assert [e.error_code for e in changed.errors] == [0, 0, 0]
    policy = "cleanup.policy"
    lists = [
        pb.ConfigChange(
            type=pb.CONFIG_RESOURCE_TYPE_TOPIC, topic_id=topic_id, appended={policy: "compact"}
        ),
        pb.ConfigChange(
            type=pb.CONFIG_RESOURCE_TYPE_TOPIC, topic_id=topic_id, subtracted={policy: "delete"}
        ),
    ]
    both = await asyncio.gather(
        *(client.alter_configs(pb.AlterConfigsRequest(changes=[change])) for change in lists)
    )
    assert [error.error_code for one in both for error in one.errors] == [0, 0]
    grown = await client.create_partitions(
        pb.CreatePartitionsRequest(topics=[pb.TopicGrowth(topic_id=topic_id, count=5)])
    )
    assert grown.errors[0].error_code == 0
    await make_instance(client, "team-a")
    limited = await client.set_instance(
        pb.SetInstanceRequest(instance={"instance": "team-a", "storage_bytes": 0})
    )
    image = await watch.wait_for_revision(limited.revision, 5.0)
    state = image.topic("t")
    assert state is not None
    assert len(state.partitions) == 5
    assert state.configs == {"segment.bytes": "2000000", policy: "compact"}, "of both changes"
    assert image.cluster_configs == {"log.retention.ms": "5"}
    assert dict(image.node_configs) == {1: {"log.roll.ms": "2"}}
    instance = image.instances["team-a"]  # type: ignore[index]
    assert (instance.storage_bytes, instance.produce_bytes_per_second) == (0, None)


async def test_a_node_is_taken_out_of_use(client: ControllerClient, watch: ClusterWatch) -> None:
    one = await node(client, 1).join()
    await node(client, 2).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 3, 2)]))

    async def step(**fields: Any) -> pb.DecommissionNodeResponse:
        request = pb.DecommissionNodeRequest(node_id=2, moves_max=2, **fields)
        return await client.decommission_node(request)

    refused = await step()
    assert refused.error.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "t (2 replicas)" in refused.error.message
    await node(client, 3).join()
    begun = await step()
    assert (begun.error.error_code, begun.replicas_left, begun.moving) == (0, 3, 2)
    image = await image_when(watch, lambda i: i.nodes[2].decommissioning)
    assert sum(2 in p.removing_replicas for t in image.topics.values() for p in t.partitions) == 2
    back = await step(cancel=True)
    assert (back.error.error_code, back.replicas_left, back.moving) == (0, 3, 2)
    await image_when(watch, lambda i: not i.nodes[2].decommissioning)
    alive = await client.remove_node(pb.RemoveNodeRequest(node_id=2))
    assert alive.error.error_code == ErrorCode.INVALID_REQUEST
    nobody = await client.remove_node(pb.RemoveNodeRequest(node_id=9))
    assert nobody.error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert not (await one.beat()).error.error_code


async def test_heartbeats_tell_how_new_the_image_is(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    one = await node(client, 1).join()
    told = (await one.beat()).revision
    await watch.wait_for_revision(told, 5.0)
    assert watch.revision == told
    await node(client, 2).join()
    assert (await one.beat()).revision > told


async def test_a_node_that_is_gone_is_forgotten(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    one = await node(client, 1).join()
    two = await node(client, 2).join()
    assert not (await client.decommission_node(pb.DecommissionNodeRequest(node_id=2))).moving
    # Its session ends, as only the other node sends heartbeats.
    async with asyncio.timeout(10):
        while watch.image is None or not watch.image.nodes[2].fenced:
            await one.beat()
            await asyncio.sleep(0.1)
    again = await node(client, 2, "b").register()
    assert again.error.error_code == 0
    image = await image_when(watch, lambda i: i.nodes[2].incarnation == "b2")
    assert image.nodes[2].decommissioning, "it remains so with the next start"
    async with asyncio.timeout(10):
        while (gone := await client.remove_node(pb.RemoveNodeRequest(node_id=2))).error.error_code:
            await one.beat()
            await asyncio.sleep(0.1)
    assert 2 not in (await watch.wait_for_revision(gone.revision, 5.0)).nodes
    assert (await two.beat()).error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_gateway_with_malformed_listeners_is_refused(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    def gateway(**listener: Any) -> pb.RegisterGatewayRequest:
        state = gateway_state("g1")
        state.listeners.add(**listener)
        return pb.RegisterGatewayRequest(gateway=state)

    refused = await client.register_gateway(gateway(name="default", host="h", port=1))
    assert refused.error.error_code == ErrorCode.INVALID_REQUEST
    assert "'default' is reserved" in refused.error.message
    taken = await client.register_gateway(gateway(name="internal", host="h", port=1))
    assert taken.error.error_code == 0
    image = await image_when(watch, lambda i: i.gateways)
    (registered,) = image.gateways.values()
    assert registered.address_of(NodeId(2), "internal") == ("h", 3)
