"""A node and its peers over either transport, at both ends: all streams, calls, and health."""

import asyncio
from dataclasses import replace

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.node_link import GrpcNodeLink
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.channels import hop_channels
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.settings import HopSettings, HopTransport
from highwater.hop.transport import SERVICE, make_server, path_of
from highwater.model.errors import PortInUseError
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.replication.follower.range_client import RangeClient
from highwater.rpc.errors import RpcError
from highwater.rpc.health import RpcHealth
from highwater.rpc.status import StatusCode
from tests.support.controller_images import image_of
from tests.support.log_batches import ManualClock, make_batch
from tests.unit.gateway.clients.partition_node import PartitionNode, until
from tests.unit.hop.sinks import TOPIC, Sink, route
from tests.unit.partition.data_plane.node import EPOCH, Fetched, ask, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.follower.test_fetchers_grpc import FOLLOWER, Follower

FAR_MS = ManualClock().now_ms + 60_000
LARGE = bytes(range(256)) * 4_000
"""Above the sizes that are copied, or joined."""


@pytest.fixture(params=HopTransport, ids=lambda transport: f"node-{transport}")
def served(request):
    return request.param


@pytest.fixture(params=HopTransport, ids=lambda transport: f"peer-{transport}")
def called(request):
    return request.param


@pytest.fixture
def failures():
    made = []
    yield made
    assert made == []


@pytest.fixture
def failed(failures):
    return lambda name, error: failures.append((name, error))


@pytest.fixture
async def node(tmp_path, served):
    made = PartitionNode(tmp_path, served)
    made.add(0)
    await made.start()
    yield made
    await made.kill()
    assert made.stream_failures == []


@pytest.fixture
def channels(called, failed):
    return hop_channels(HopSettings(transport=called), failed)


@pytest.fixture
async def link(node, called, channels, failed):
    made = GrpcNodeLink(
        node.state(),
        clock=node.clock,
        schedule=asyncio.get_running_loop().call_soon,
        on_failure=failed,
        budget=MemoryBudget(64 << 20),
        channels=channels,
        transport=called,
    )
    made.start()
    await until(lambda: made.takes_appends and made._fetch.stream.is_open)
    await until(lambda: made._coordinate.stream.is_open)
    yield made
    await made.close()


async def test_appends_and_fetches(node, link):
    sink = Sink()
    values = [b"small", LARGE, b"%d" % 7] * 4
    one = route(0, epoch=EPOCH)
    for number, value in enumerate(values):
        batch = make_batch(value=value)
        link.append(one, 1, memoryview(batch), len(batch), sink, number, FAR_MS)
    await until(lambda: len(sink.results) == len(values))
    assert sink.codes == dict.fromkeys(range(len(values)), 0)
    assert sink.offsets == {number: number for number in range(len(values))}
    fetched = Fetched((ask(0, max_bytes=1 << 26),), max_bytes=1 << 26)
    link.fetch(fetched.work)
    await until(lambda: fetched.answers)
    assert bytes(fetched.results[0].records) == stored(node.plane.replicas[TOPIC, 0])


async def test_coordinator_calls(node, link):
    replies = []
    call = CoordinatorCall(
        api_key=11,
        api_version=7,
        instance=DEFAULT_INSTANCE,
        client_id="c",
        client_host="h",
        body=memoryview(LARGE),
        partition=3,
        deadline_ms=5_000,
        reply=lambda code, body: replies.append((code, body)),
    )
    link.submit(call)
    await until(lambda: node.coordinator.calls)
    (asked,) = node.coordinator.calls
    assert (asked.api_key, asked.partition, asked.body) == (11, 3, LARGE)
    asked.reply(0, LARGE)
    await until(lambda: replies == [(0, LARGE)])


async def test_replication(tmp_path, node, called, failures):
    (tmp_path / "follower").mkdir()
    follower = Follower(tmp_path / "follower", called)
    leader = node.add(5, lead=False)
    copy = follower.add(5)
    for replica in (leader, copy):
        image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    follower.hear(node.state())
    sinks = [node.append(make_batch(value=LARGE), partition=5, acks=-1) for _ in range(5)]
    await until(lambda: all(sink.codes == {0: 0} for sink in sinks))
    assert stored(copy) == stored(leader)
    await follower.fetchers.close()
    assert follower.failures == []


async def test_unary_calls(node, link, channels):
    node.append(make_batch())
    request = pb.ListOffsetsRequest()
    request.partitions.add(topic_id=TOPIC, partition=0, current_leader_epoch=-1, timestamp=-1)
    offsets = await link.list_offsets(request, 5.0)
    assert [result.offset for result in offsets.results] == [1]
    epochs = pb.OffsetsForLeaderEpochRequest()
    epochs.partitions.add(topic_id=TOPIC, partition=0, current_leader_epoch=-1, leader_epoch=EPOCH)
    ends = await link.offsets_for_leader_epoch(epochs, 5.0)
    assert [(end.leader_epoch, end.end_offset) for end in ends.results] == [(EPOCH, 1)]
    described = await link.describe_log_dirs(pb.DescribeLogDirsRequest(), 5.0)
    assert len(described.dirs) == 1
    ranges = RangeClient(channels)
    ranges.image_changed(image_of([replace(node.state(), node_id=NODE)]))
    records = await ranges.ask(NODE, TOPIC, 0, EPOCH, 0, 1)
    assert records == stored(node.plane.replicas[TOPIC, 0])
    deletion = pb.DeleteRecordsRequest()
    deletion.partitions.add(topic_id=TOPIC, partition=0, offset=-1)
    deleted = await link.delete_records(deletion, 5.0)
    assert [(one.error_code, one.low_watermark) for one in deleted.results] == [(0, 1)]
    await ranges.close()


async def test_a_node_that_stops_ends_its_streams_in_order(node, link):
    assert await node.stop()
    await until(lambda: not link.takes_appends)
    await node.start()
    await until(lambda: link.takes_appends)


async def test_a_malformed_message_is_answered_by_a_status_with_text(node, channels):
    channel = channels.open(f"127.0.0.1:{node.port}")
    ends = []
    call = channel.stream(path_of("Append"), on_message=lambda _: None, on_end=ends.append)
    call.send(b"\xff" * 20)
    await until(lambda: ends)
    assert ends[0].code is StatusCode.INVALID_ARGUMENT
    assert "header of" in ends[0].details
    with pytest.raises(RpcError) as caught:
        await channel.unary(
            path_of("Nothing"), b"", serialize=bytes, deserialize=bytes, timeout_s=5
        )
    assert caught.value.code is StatusCode.UNIMPLEMENTED
    await channels.close(channel)


async def test_statistics_are_kept_when_a_channel_is_closed(node, channels, called):
    channel = channels.open(f"127.0.0.1:{node.port}")
    opened = []
    channel.stream(
        path_of("Fetch"),
        on_message=lambda _: None,
        on_end=lambda _: None,
        on_open=lambda: opened.append(1),
    )
    await until(lambda: opened)
    told = channels.statistics()
    if called is HopTransport.GRPCIO:
        assert told is None, "grpcio tells nothing"
    else:
        assert (told.connections, told.streams, told.connections_opened) == (1, 1, 1)
    await channels.close(channel)
    after = channels.statistics()
    assert (after.connections, after.streams) == (0, 0)
    if called is HopTransport.LOOP:
        assert (after.connections_opened, after.totals.streams_opened) == (1, 1)
        assert after.totals.bytes_sent > 0


async def test_stock_grpcio_asks_for_health(served, failed):
    server = make_server("127.0.0.1", 0, served, failed)
    health = RpcHealth((SERVICE,))
    health.add_to(server.methods)
    await server.start()
    with pytest.raises(PortInUseError):
        await make_server("127.0.0.1", server.port, served, failed).start()
    async with asyncio.timeout(10), grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watched = stub.Watch(request)
        statuses = health_pb2.HealthCheckResponse
        assert (await watched.read()).status == statuses.SERVICE_UNKNOWN
        for serving, status in ((True, statuses.SERVING), (False, statuses.NOT_SERVING)):
            await health.set_serving(serving=serving)
            assert (await stub.Check(request)).status == status
            assert (await watched.read()).status == status
        watched.cancel()
    await server.stop(drain_s=0)
