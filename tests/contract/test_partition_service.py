"""A stock client, generated from the proto, on a partition node that serves by its own sockets.

The node is whole: its controller is in the same process, and clients reach it over a real port.
`test_partition_calls` has the unary calls.
"""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2 as controller_pb
from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.api.partition.v1 import partition_service_pb2_grpc as rpc
from highwater.hop.settings import HopSettings, HopTransport
from highwater.hop.transport import SERVICE
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_groups import ListGroupsRequest, decode_response, encode_request
from highwater.kafka.records.batch import read_header
from highwater.metadata.controller_client import ControllerClient
from highwater.partition.config import PartitionConfig
from highwater.partition.service import PartitionService
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.contract import partition_messages as wire
from tests.support import controller as support
from tests.support.controller import FakeNode
from tests.support.log_batches import make_batch
from tests.support.rpc_demo import run_on_uvloop

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
NODE, FOLLOWER = 1, 2
LIST_GROUPS, LIST_GROUPS_VERSION, HEARTBEAT = 16, 4, 12
LARGE = bytes(range(256)) * 3_500
"""Two of these are more than one message of an answer."""
WAIT_S = 10.0


class Led:
    """A partition that the node leads, and what a client has to know of it."""

    def __init__(self, topic, partition):
        self.topic_id, self.partition = topic.topic_id, partition
        self.epoch = topic.partitions[partition].leader_epoch

    def append(self, *batches, message_id=1, epoch=None, acks=1):
        return wire.append_request(
            self.topic_id,
            [bytes(batch) for batch in batches],
            message_id=message_id,
            partition=self.partition,
            epoch=self.epoch if epoch is None else epoch,
            acks=acks,
        )

    def fetch(self, offset, *, call_id=1, **options):
        return wire.fetch_request(
            self.topic_id, call_id=call_id, offset=offset, partition=self.partition, **options
        )


@contextlib.asynccontextmanager
async def scene(directory, transport=HopTransport.LOOP):
    """A node, a second one that only a client's Replicate stands for, and a client's channel."""
    controller = await support.started(serve_grpc=True, session_timeout_ms=60_000)
    endpoints = support.endpoints_of(controller)
    settings = PartitionConfig(
        node_id=NODE,
        log_dirs=(directory,),
        quota_address="",
        port=0,
        drain_catch_up_s=0.1,
        hop=HopSettings(transport=transport),
    )
    service = PartitionService(
        settings,
        clock=SystemClock(),
        endpoints=endpoints,
        registry=CollectorRegistry(),
        log=silent_logger(),
        observed=True,
    )
    await service.start()
    stopped = False

    async def stop():
        nonlocal stopped
        stopped = True
        await service.stop()

    try:
        client = ControllerClient(endpoints)
        follower = await FakeNode(client, "127.0.0.1:1", "b", FOLLOWER).join()
        await support.image_when(
            service.watch, lambda image: [n.fenced for n in image.nodes.values()] == [False] * 2
        )
        topics = [support.topic("orders", 2, 1), support.topic("copied", 2, 2)]
        await client.create_topics(
            controller_pb.CreateTopicsRequest(instance="default", topics=topics)
        )
        image = await support.image_when(service.watch, lambda image: image.topic("copied"))
        led = {
            name: Led(
                image.topic(name),
                [p.leader for p in image.topic(name).partitions].index(NODE),
            )
            for name in ("orders", "copied")
        }
        address = image.nodes[NODE].address
        async with (
            asyncio.timeout(4 * WAIT_S),
            grpc.aio.insecure_channel(address, options=OPTIONS) as channel,
        ):
            yield {
                "address": address,
                "channel": channel,
                "stub": rpc.PartitionServiceStub(channel),
                "orders": led["orders"],
                "copied": led["copied"],
                "follower": follower,
                "directory": directory,
                "stop": stop,
            }
    finally:
        if not stopped:
            await service.stop()
        await endpoints.close()
        await controller.stop()


@pytest.fixture
async def node(tmp_path):
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
def stub(node):
    return node["stub"]


@pytest.fixture
def orders(node):
    return node["orders"]


@pytest.fixture
def copied(node):
    return node["copied"]


@pytest.fixture
def follower(node):
    return node["follower"]


@pytest.fixture
def address(node):
    return node["address"]


@pytest.fixture
def channel(node):
    return node["channel"]


@pytest.fixture
def stop(node):
    return node["stop"]


async def appended(call, count=1):
    """The results of so many groups, by message."""
    results, acknowledged = {}, []
    while len(results) < count or len(acknowledged) < count:
        response = await call.read()
        acknowledged += response.appended_message_ids
        results |= {result.message_id: result for result in response.results}
    assert sorted(acknowledged) == sorted(results)
    return results


async def append(stub, partition, *batches, **options):
    call = stub.Append()
    await call.write(partition.append(*batches, **options))
    results = await appended(call)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    return results.popitem()[1]


async def answer(call, call_id):
    """(Kafka's error code, high watermark, records) of the one partition of a fetch."""
    columns, records = None, b""
    while True:
        response = await call.read()
        position = 0
        results = list(wire.FETCH_RESULT.iter_unpack(response.partitions))
        for number, count, _, nbytes, done in wire.FETCH_ANSWER.iter_unpack(response.answers):
            assert number == call_id
            if count:
                columns = results.pop(0)
            records += response.payload[position : position + nbytes]
            position += nbytes
            if done:
                assert len(records) == columns[4]
                return columns[0], columns[1], records


async def test_append(stub, orders, copied):
    call = stub.Append()
    await call.write(orders.append(make_batch(), make_batch(value=LARGE)))
    await call.write(orders.append(make_batch(), message_id=2, epoch=orders.epoch + 5))
    await call.write(orders.append(b"no batch at all", message_id=3))
    await call.write(copied.append(make_batch(), message_id=4))
    results = await appended(call, 4)
    assert list(results[1].base_offsets) == [0, 1]
    assert not results[1].failures
    assert results[1].log_append_time_ms == -1
    (failure,) = results[2].failures
    assert failure.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (failure.leader, failure.leader_epoch) == (NODE, orders.epoch)
    assert failure.outcome == pb.APPEND_OUTCOME_NOT_APPENDED
    (failure,) = results[3].failures
    assert failure.error_code == ErrorCode.CORRUPT_MESSAGE
    assert failure.message
    assert list(results[4].base_offsets) == [0]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


async def test_fetch(stub, orders):
    batches = [make_batch(value=b"small"), make_batch(value=LARGE), make_batch(value=LARGE)]
    await append(stub, orders, *batches)
    call = stub.Fetch()
    await call.write(orders.fetch(0))
    code, high_watermark, records = await answer(call, 1)
    assert (code, high_watermark) == (0, 3)
    assert len(records) == sum(map(len, batches))
    first = read_header(records)
    assert (first.base_offset, first.leader_epoch) == (0, orders.epoch)
    assert records.endswith(bytes(batches[2][21:])), "all but offset and epoch as it was sent"

    await call.write(orders.fetch(9, call_id=2))
    assert (await answer(call, 2))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    await call.write(orders.fetch(3, call_id=3, max_wait_ms=60_000))
    await call.write(orders.fetch(3, call_id=4, max_wait_ms=60_000))
    await call.write(pb.FetchRequest(cancelled_call_ids=[3]))
    await append(stub, orders, make_batch(value=b"news"))
    code, high_watermark, records = await answer(call, 4)
    assert (code, high_watermark, read_header(records).base_offset) == (0, 4, 3)
    call.cancel()


async def test_coordinate(stub):
    call = stub.Coordinate()
    body = encode_request(ListGroupsRequest(), LIST_GROUPS_VERSION)
    every = {"instance": "default", "client_id": "c", "client_host": "/h", "deadline_ms": 5_000}
    list_groups = pb.CoordinatorCall(
        call_id=7,
        api_key=LIST_GROUPS,
        api_version=LIST_GROUPS_VERSION,
        coordinator_partition=-1,
        body=body,
        **every,
    )
    elsewhere = pb.CoordinatorCall(
        call_id=8, api_key=HEARTBEAT, api_version=4, coordinator_partition=3, **every
    )
    await call.write(pb.CoordinateRequest(calls=[list_groups, elsewhere]))
    replies = {}
    while len(replies) < 2:
        replies |= {reply.call_id: reply for reply in (await call.read()).replies}
    assert replies[7].error_code == 0
    listed = decode_response(replies[7].body, 0, LIST_GROUPS_VERSION)
    assert (listed.error_code, list(listed.groups)) == (0, [])
    assert (replies[8].error_code, replies[8].body) == (ErrorCode.NOT_COORDINATOR, b"")
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_replicate(stub, copied, follower):
    def place(request_id, offset):
        return wire.replicate_request(
            copied.topic_id,
            request_id=request_id,
            node=(follower.node_id, follower.epoch),
            partition=copied.partition,
            epoch=copied.epoch,
            offset=offset,
        )

    appending, call = stub.Append(), stub.Replicate()
    await appending.write(copied.append(make_batch(value=LARGE), acks=-1))
    written = await appending.read()
    assert (list(written.appended_message_ids), list(written.results)) == ([1], [])
    await call.write(place(1, 0))
    response = await call.read()
    assert response.request_id == 1
    assert list(response.topic_ids) == [copied.topic_id]
    row = wire.REPLICATE_ANSWER.unpack(response.partitions)
    # Topic, partition, leader epoch, offset asked for, code; the end is behind the record.
    assert (row[0], *row[1:4], row[5]) == (0, copied.partition, copied.epoch, 0, 0)
    assert (row[6], row[8], row[11]) == (0, 1, len(response.payload))
    assert read_header(response.payload).base_offset == 0
    await call.write(place(2, 1))  # This says that the follower has the record.
    (committed,) = (await appending.read()).results
    assert list(committed.base_offsets) == [0]
    row = wire.REPLICATE_ANSWER.unpack((await call.read()).partitions)
    assert row[6] == 1, "the high watermark"

    strange = stub.Replicate()
    await strange.write(
        wire.replicate_request(
            copied.topic_id,
            request_id=1,
            node=(follower.node_id, follower.epoch - 1),
            partition=copied.partition,
            epoch=copied.epoch,
            offset=0,
        )
    )
    row = wire.REPLICATE_ANSWER.unpack((await strange.read()).partitions)
    assert (row[5], row[11]) == (ErrorCode.STALE_BROKER_EPOCH, 0)
    for one in (appending, call, strange):
        one.cancel()


async def test_health(channel):
    health = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for name in ("", SERVICE):
        request = health_pb2.HealthCheckRequest(service=name)
        assert (await health.Check(request, timeout=WAIT_S)).status == serving
        watch = health.Watch(request)
        assert (await watch.read()).status == serving
        watch.cancel()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health.Check(health_pb2.HealthCheckRequest(service="other"), timeout=WAIT_S)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_errors_are_statuses_with_text(stub, channel, orders):
    for call, message in (
        (stub.Append(), pb.AppendRequest(header_bytes=1 << 20, payload=b"x")),
        (stub.Fetch(), pb.FetchRequest(calls=b"no row")),
        (stub.Replicate(), pb.ReplicateRequest(request_id=1, partitions=b"no row")),
    ):
        await call.write(message)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await call.details()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"/{SERVICE}/Nowhere")(b"", timeout=WAIT_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert list((await append(stub, orders, make_batch())).base_offsets) == [0]


async def test_a_node_that_stops_says_so_and_ends_its_streams(stub, channel, orders, stop):
    serving = health_pb2.HealthCheckResponse
    watch = health_pb2_grpc.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(service=SERVICE)
    )
    assert (await watch.read()).status == serving.SERVING
    call, fetching = stub.Append(), stub.Fetch()
    await call.write(orders.append(make_batch()))
    assert list((await appended(call))[1].base_offsets) == [0]
    await fetching.write(orders.fetch(1, max_wait_ms=60_000))
    stopping = asyncio.ensure_future(stop())
    assert (await watch.read()).status == serving.NOT_SERVING
    response = await call.read()
    assert response.ending
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    while await fetching.read() is not grpc.aio.EOF:
        pass
    assert await fetching.code() is grpc.StatusCode.OK
    await stopping


async def test_the_synchronous_client(address, orders):
    def calls():
        with grpc.insecure_channel(address, options=OPTIONS) as channel:
            stub = rpc.PartitionServiceStub(channel)
            offsets = []
            requests = iter([orders.append(make_batch(value=LARGE))])
            for response in stub.Append(requests, timeout=WAIT_S):
                offsets += [list(result.base_offsets) for result in response.results]
            return offsets

    assert await asyncio.get_running_loop().run_in_executor(None, calls) == [[0]]


@pytest.mark.parametrize(
    "check",
    [
        test_append,
        test_fetch,
        test_coordinate,
        test_replicate,
        test_a_node_that_stops_says_so_and_ends_its_streams,
    ],
)
def test_on_uvloop(check, tmp_path):
    run_on_uvloop(check, lambda: scene(tmp_path))
