"""The stream of a session: bytes in, bytes out, its end, and a follower over gRPC."""

import asyncio
import os

import grpc
import grpc.aio
import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge.replicate_stream import replicate_stream
from highwater.partition.edge.server import MESSAGE_BYTES_MAX, SERVICE
from highwater.partition.replication.codec import (
    FollowerRequest,
    decode_response,
    encode_request,
)
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.storage.segment.batches import HEADER_BYTES
from highwater.runtime.grpc_channel import open_channel
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import PartitionNode, until
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.edge.test_streams import Aborted, Context
from tests.unit.partition.replication.leader_side import FOLLOWER, NODE_EPOCH, Leader, place


@pytest.fixture
def context():
    return Context()


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


def serve(leader, context):
    return asyncio.create_task(replicate_stream(leader.plane, context, clock=leader.clock))


async def ended(serving):
    async with asyncio.timeout(5):
        return await serving


async def test_a_follower_is_fed_until_the_stream_ends(context, leader):
    replica = leader.add_led()
    serving = serve(leader, context)
    context.inbox.put_nowait(request(1, place(0)))
    await until(lambda: replica.listeners)
    leader.append(make_batch())
    await until(lambda: context.written)
    number, (row,) = decode_response(context.written[0])
    assert (number, bytes(row.records)) == (1, stored(replica))
    context.inbox.put_nowait(request(2, place(1)))
    await until(lambda: replica.core.followers[FOLLOWER].log_end_offset == 1)
    context.inbox.put_nowait(grpc.aio.EOF)
    await ended(serving)
    assert replica.listeners == ()
    leader.append(make_batch())
    await asyncio.sleep(0.01)
    assert len(context.written) == 1


async def test_an_empty_answer_comes_after_max_wait(context, leader):
    serving = serve(leader, context)
    context.inbox.put_nowait(request(1, max_wait_ms=0))
    await until(lambda: context.written)
    assert decode_response(context.written[0]) == (1, [])
    context.inbox.put_nowait(grpc.aio.EOF)
    await ended(serving)


@pytest.mark.parametrize(
    "messages", [[b"\xff" * 9], [request(2)], [request(1), request(3)]], ids=len
)
async def test_an_invalid_follower_gets_an_error_and_loses_its_session(context, leader, messages):
    replica = leader.add_led()
    serving = serve(leader, context)
    for message in messages:
        context.inbox.put_nowait(message)
    with pytest.raises(Aborted) as caught:
        await ended(serving)
    assert caught.value.args[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert replica.listeners == ()


async def test_a_cancelled_stream_leaves_nothing_behind(context, leader):
    replica = leader.add_led()
    serving = serve(leader, context)
    context.inbox.put_nowait(request(1, place(0)))
    await until(lambda: replica.listeners)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(serving)
    assert replica.listeners == ()


async def test_a_session_that_breaks_ends_the_stream(context, leader, monkeypatch):
    def fail(_session, _now_ms):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(LeaderSession, "_answers", fail)
    serving = serve(leader, context)
    context.inbox.put_nowait(request(1))
    with pytest.raises(ConnectionError) as caught:
        await ended(serving)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_missing_bytes_take_the_directory_offline(context, leader):
    replica = leader.add_led()
    leader.append(make_batch())
    os.ftruncate(replica.log.extent.active.open(), HEADER_BYTES + 2)
    serving = serve(leader, context)
    context.inbox.put_nowait(request(1, place(0)))
    await until(lambda: context.written)
    _, (row,) = decode_response(context.written[0])
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(leader.log_failures) == 1
    context.inbox.put_nowait(grpc.aio.EOF)
    await ended(serving)


async def test_the_service_has_the_stream(tmp_path):
    node = PartitionNode(tmp_path)
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    node.append(make_batch(value=b"v" * 300_000))
    await node.start()
    channel = open_channel(f"127.0.0.1:{node.port}", message_bytes_max=MESSAGE_BYTES_MAX)
    try:
        async with asyncio.timeout(10):
            call = channel.stream_stream(f"/{SERVICE}/Replicate")()
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
