"""The controller through its two servicers, in process and over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage, PartitionState
from tests.support.controller import FakeNode, endpoints_of, gateway_state, started, topic


@pytest.fixture(params=[False, True], ids=["in-process", "grpc"])
async def controller(request: pytest.FixtureRequest) -> AsyncIterator[ControllerService]:
    service = await started(serve_grpc=request.param)
    yield service
    await service.stop()


@pytest.fixture
async def endpoints(controller: ControllerService) -> AsyncIterator[ControllerEndpoints]:
    made = endpoints_of(controller)
    yield made
    await made.close()


@pytest.fixture
def client(endpoints: ControllerEndpoints) -> ControllerClient:
    return ControllerClient(endpoints)


@pytest.fixture
async def watch(endpoints: ControllerEndpoints) -> AsyncIterator[ClusterWatch]:
    made = ClusterWatch(endpoints)
    made.start()
    await made.wait_for_revision(1, 5.0)
    yield made
    await made.stop()


async def image_when(
    watch: ClusterWatch, holds: Callable[[Any], object], timeout_s: float = 5.0
) -> ClusterImage:
    """The first image of which `holds(image)` is true."""
    async with asyncio.timeout(timeout_s):
        while watch.image is None or not holds(watch.image):
            await watch.wait_for_revision(watch.revision + 1, timeout_s)
    return watch.image


def partition_of(image: ClusterImage, name: str, number: int = 0) -> PartitionState:
    state = image.topic(name)
    assert state is not None
    return state.partitions[number]


def node(client: ControllerClient, number: int, incarnation: str = "a") -> FakeNode:
    return FakeNode(client, f"127.0.0.1:{9300 + number}", f"{incarnation}{number}", number)


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


async def test_a_new_node_is_fenced_until_it_has_applied_its_registration(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    first = node(client, -1)
    response = await first.register()
    assert (response.node_id, response.error.error_code) == (1, 0)
    assert (await first.beat(response.node_epoch - 1)).fenced
    assert not (await first.beat(response.node_epoch)).fenced
    second = FakeNode(client, "127.0.0.1:9400", "b")
    assert (await second.register()).node_id == 2
    image = await image_when(watch, lambda i: len(i.nodes) == 2)
    assert (image.nodes[1].fenced, image.nodes[2].fenced) == (False, True)  # type: ignore[index]


async def test_a_live_duplicate_is_refused(client: ControllerClient) -> None:
    await node(client, 1).join()
    assert (await node(client, 1, "b").register()).error.error_code == (
        ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )


async def test_the_same_incarnation_keeps_its_epoch(client: ControllerClient) -> None:
    first = await node(client, 1).join()
    again = await node(client, 1).register()
    assert (again.error.error_code, again.node_epoch) == (0, first.epoch)


async def test_another_clusters_node_is_refused(client: ControllerClient) -> None:
    response = await client.register_node(
        pb.RegisterNodeRequest(node_id=1, address="h:1", incarnation="x", cluster_id="other")
    )
    assert response.error.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_a_killed_node_leads_again_after_its_restart(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    first = await node(client, 1).join()
    stream = ClusterWatch(endpoints, watcher=Watcher(node_id=1, node_epoch=first.epoch))
    stream.start()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t")]))
    await stream.wait_for_revision(created.revision, 5.0)
    before = partition_of(await image_when(watch, lambda i: i.topic("t")), "t")
    await stream.stop()  # What the controller sees of kill -9.
    await asyncio.sleep(0.05)
    second = node(client, 1, "b")
    assert (await second.register()).error.error_code == 0, "a closed stream frees the id at once"
    assert second.epoch > first.epoch
    assert (await first.beat()).error.error_code == ErrorCode.STALE_BROKER_EPOCH
    fenced = partition_of(await image_when(watch, lambda i: i.nodes[1].fenced), "t")
    assert (fenced.leader, fenced.isr) == (-1, (1,))
    assert not (await second.beat()).fenced
    after = partition_of(await image_when(watch, lambda i: not i.nodes[1].fenced), "t")
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > fenced.leader_epoch > before.leader_epoch


async def test_a_closed_stream_is_death_after_the_grace(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    one, two = await node(client, 1).join(), await node(client, 2).join()
    stream = ClusterWatch(endpoints, watcher=Watcher(node_id=1, node_epoch=one.epoch))
    stream.start()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 2, 2)]))
    await stream.wait_for_revision(created.revision, 5.0)
    await stream.stop()
    await two.beat()
    image = await image_when(watch, lambda i: i.nodes[1].fenced, timeout_s=1.0)
    assert {partition_of(image, "t", p).leader for p in (0, 1)} == {2}
    assert not image.nodes[2].fenced  # type: ignore[index]
    assert not (await one.beat()).fenced, "it was alive after all and comes back"


async def test_silence_is_death_after_the_session(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    await image_when(watch, lambda i: 1 in i.nodes and not i.nodes[1].fenced)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await image_when(watch, lambda i: i.nodes[1].fenced, timeout_s=5.0)
    assert 1.5 < loop.time() - start < 3.5


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
    grown = await client.create_partitions(
        pb.CreatePartitionsRequest(topics=[pb.TopicGrowth(topic_id=topic_id, count=5)])
    )
    assert grown.errors[0].error_code == 0
    limited = await client.set_instance(
        pb.SetInstanceRequest(instance={"instance": "team-a", "storage_bytes": 0})
    )
    image = await watch.wait_for_revision(limited.revision, 5.0)
    state = image.topic("t")
    assert state is not None
    assert (len(state.partitions), state.configs) == (5, {"segment.bytes": "2000000"})
    assert image.cluster_configs == {"log.retention.ms": "5"}
    assert dict(image.node_configs) == {1: {"log.roll.ms": "2"}}
    instance = image.instances["team-a"]  # type: ignore[index]
    assert (instance.storage_bytes, instance.produce_bytes_per_second) == (0, None)


async def test_gateways_are_assigned_and_forgotten(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    await node(client, 1).join()
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    stream = ClusterWatch(endpoints, watcher=Watcher(gateway_id="g1"))
    stream.start()
    image = await image_when(watch, lambda i: i.node_gateways)
    assert dict(image.node_gateways) == {1: "g1"}
    await stream.wait_for_revision(image.revision, 5.0)
    await stream.stop()
    image = await image_when(watch, lambda i: not i.gateways, timeout_s=1.5)
    assert not image.node_gateways
    beat = await client.heartbeat(pb.HeartbeatRequest(node_id=-1, gateway_id="g1"))
    assert beat.error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_change_is_answered_when_members_have_applied_it(client: ControllerClient) -> None:
    one = await node(client, 1).join()
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    applied = (await client.create_topics(pb.CreateTopicsRequest(topics=[topic("a")]))).revision
    creating = asyncio.ensure_future(
        client.create_topics(pb.CreateTopicsRequest(topics=[topic("b")]))
    )
    done, _ = await asyncio.wait({creating}, timeout=0.3)
    assert not done, "the gateway has not applied it"
    assert not (await one.beat()).fenced
    await client.heartbeat(
        pb.HeartbeatRequest(node_id=-1, gateway_id="g1", applied_revision=applied + 100)
    )
    done, _ = await asyncio.wait({creating}, timeout=0.5)
    assert done
    start = asyncio.get_running_loop().time()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("c")], timeout_ms=100))
    assert asyncio.get_running_loop().time() - start < 1.5, "the wait has a limit"


async def test_a_node_s_settings_are_told_and_kept(tmp_path: Path) -> None:
    configs = {"group.max.size": "7"}
    first = await started(driver="sqlite", data_dir=tmp_path)
    endpoints = endpoints_of(first)
    member = node(ControllerClient(endpoints), 1)
    member.static_configs = configs
    await member.join()
    watch = ClusterWatch(endpoints)
    watch.start()
    image = await image_when(watch, lambda image: 1 in image.nodes)
    assert [n.static_configs for n in image.nodes.values()] == [configs]
    await watch.stop()
    await endpoints.close()
    await first.stop()
    second = await started(driver="sqlite", data_dir=tmp_path)
    assert second.active is not None
    assert [n.static_configs for n in second.active.image.nodes.values()] == [configs]
    await second.stop()


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    first = await started(driver="sqlite", data_dir=tmp_path)
    client = ControllerClient(first.in_process_endpoints())
    one = await node(client, 1).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 3)]))
    await client.allocate_producer_ids(
        pb.AllocateProducerIdsRequest(node_id=1, node_epoch=one.epoch)
    )
    assert first.active is not None
    before = first.active.image
    await first.stop()
    second = await started(driver="sqlite", data_dir=tmp_path)
    try:
        assert second.active is not None
        after = second.active.image
        assert (after.cluster_id, after.topics) == (before.cluster_id, before.topics)
        assert after.controller_epoch > before.controller_epoch
        client = ControllerClient(second.in_process_endpoints())
        again = node(client, 1, "b")
        again.previous_epoch = one.epoch
        assert (await again.register()).error.error_code == 0, "its former process is surely dead"
        assert not (await again.beat()).fenced
        assert partition_of(second.active.image, "t").leader == 1
        block = await client.allocate_producer_ids(
            pb.AllocateProducerIdsRequest(node_id=1, node_epoch=again.epoch)
        )
        assert block.start == 1000
    finally:
        await second.stop()
