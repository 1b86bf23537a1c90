"""A server over grpc.aio, and stock clients; `test_ports` has what both transports promise."""

import asyncio

import grpc
import grpc.aio
import pytest

from highwater.rpc.grpcio_server import GrpcioServer
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.status import StatusCode

STREAM, UNARY = "/test.Service/Stream", "/test.Service/Unary"


@pytest.fixture
async def server():
    failures = []
    made = GrpcioServer(
        "127.0.0.1", 0, on_failure=lambda name, error: failures.append((name, error))
    )
    yield made
    await made.stop(drain_s=0)
    assert failures == []


@pytest.fixture
async def stock(server):
    channels = []

    async def connect():
        await server.start()
        assert server.address == f"127.0.0.1:{server.port}"
        channels.append(grpc.aio.insecure_channel(server.address))
        return channels[-1]

    yield connect
    for channel in channels:
        await channel.close()


async def test_a_unary_call_of_a_stock_client(server, stock):
    async def upper(request, _call):
        return request.upper()

    server.methods.add_unary(UNARY, upper, deserialize=bytes, serialize=bytes)
    channel = await stock()
    async with asyncio.timeout(10):
        assert await channel.unary_unary(UNARY)(b"abc", timeout=5) == b"ABC"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/test.Service/Other")(b"", timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_handler_that_refuses_before_it_reads(server, stock):
    ends = []

    def refuse(call):
        call.finish(StatusCode.UNAVAILABLE, "not now", [("try", "later")])
        return ServerCallbacks(on_message=lambda _message: None, on_end=ends.append)

    server.methods.add_stream(STREAM, refuse)
    call = (await stock()).stream_stream(STREAM)()
    async with asyncio.timeout(10):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "not now"
    assert caught.value.trailing_metadata()["try"] == "later"
    assert [status.code for status in ends] == [StatusCode.UNAVAILABLE]
