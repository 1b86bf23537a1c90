"""The stream of a session: bytes in, bytes out, its end, and a follower over stock gRPC."""

import asyncio
import os

import grpc
import grpc.aio
import pytest

from highwater.hop.settings import HopTransport
from highwater.hop.transport import MESSAGE_BYTES_MAX, path_of
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge.replicate_stream import replicate_handler
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.replication.codec import (
    FollowerRequest,
    decode_response,
    encode_request,
)
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.storage.segment.batches import HEADER_BYTES
from highwater.rpc.status import Status, StatusCode
from highwater.runtime.grpc_channel import open_channel
from tests.support.fake_calls import FakeServerCall
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import PartitionNode, until
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.leader_side import FOLLOWER, NODE_EPOCH, Leader, place


@pytest.fixture
def call():
    return FakeServerCall()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


def request(number, *asked, max_wait_ms=500):
    return encode_request(
        FollowerRequest(
            request_id=number,
            node_id=FOLLOWER,
            node_epoch=NODE_EPOCH,
            asked=asked,
            max_wait_ms=max_wait_ms,
            max_bytes=8 << 20,
            partition_max_bytes=1 << 20,
        )
    )


@pytest.fixture
def serve(leader, call, failures):
    def on_failure(path, error):
        failures.append((path, error))

    def begin():
        call.serve(replicate_handler(leader.plane, StreamDrain(), on_failure, clock=leader.clock))

    return begin


async def ended(call):
    call.half_close()
    await until(lambda: call.status == Status(StatusCode.OK))


async def test_a_follower_is_fed_until_the_stream_ends(call, serve, leader):
    replica = leader.add_led()
    serve()
    call.message(request(1, place(0)))
    await until(lambda: replica.listeners)
    leader.append(make_batch())
    await until(lambda: call.written)
    number, (row,) = decode_response(call.written[0])
    assert (number, bytes(row.records)) == (1, stored(replica))
    call.message(request(2, place(1)))
    await until(lambda: replica.core.followers[FOLLOWER].log_end_offset == 1)
    call.lose()
    assert replica.listeners == ()
    leader.append(make_batch())
    await asyncio.sleep(0.01)
    assert len(call.written) == 1


async def test_an_empty_answer_comes_after_max_wait(call, serve, leader):
    serve()
    call.message(request(1, max_wait_ms=0))
    await until(lambda: call.written)
    assert decode_response(call.written[0]) == (1, [])
    await ended(call)


@pytest.mark.parametrize(
    "messages", [[b"\xff" * 9], [request(2)], [request(1), request(3)]], ids=len
)
async def test_an_invalid_follower_gets_an_error_and_loses_its_session(
    call, serve, leader, messages
):
    replica = leader.add_led()
    serve()
    for message in messages:
        call.message(message)
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    assert replica.listeners == ()


async def test_a_lost_stream_leaves_nothing_behind(call, serve, leader):
    replica = leader.add_led()
    serve()
    call.message(request(1, place(0)))
    await until(lambda: replica.listeners)
    call.lose()
    assert replica.listeners == ()


async def test_a_session_that_breaks_ends_the_stream(call, serve, leader, failures, monkeypatch):
    def fail(_session, _now_ms):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(LeaderSession, "_answers", fail)
    serve()
    call.message(request(1))
    await until(lambda: call.status)
    assert call.status.code is StatusCode.UNKNOWN
    assert [type(error) for _, error in failures] == [ZeroDivisionError]


async def test_missing_bytes_take_the_directory_offline(call, serve, leader):
    replica = leader.add_led()
    leader.append(make_batch())
    os.ftruncate(replica.log.extent.active.open(), HEADER_BYTES + 2)
    serve()
    call.message(request(1, place(0)))
    await until(lambda: call.written)
    _, (row,) = decode_response(call.written[0])
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(leader.log_failures) == 1
    await ended(call)


@pytest.mark.parametrize("transport", HopTransport)
async def test_the_service_has_the_stream(tmp_path, transport):
    node = PartitionNode(tmp_path, transport)
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    node.append(make_batch(value=b"v" * 300_000))
    await node.start()
    channel = open_channel(f"127.0.0.1:{node.port}", message_bytes_max=MESSAGE_BYTES_MAX)
    try:
        async with asyncio.timeout(10):
            call = channel.stream_stream(path_of("Replicate"))()
            await call.write(request(1, place(0)))
            number, (row,) = decode_response(await call.read())
            assert (number, bytes(row.records)) == (1, stored(replica))
            await call.write(request(2, place(1)))
            number, (row,) = decode_response(await call.read())
            assert (number, row.high_watermark, row.records) == (2, 1, b"")
            await call.write(request(9))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    finally:
        await channel.close(None)
        await node.kill()
    assert replica.listeners == ()
