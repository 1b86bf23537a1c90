"""A channel over grpc.aio; `test_ports` has what both transports promise."""

import asyncio

import pytest

from highwater.rpc.errors import RpcError
from highwater.rpc.grpcio_channel import GrpcioChannel
from highwater.rpc.grpcio_server import GrpcioServer
from highwater.rpc.status import StatusCode

READ, WRITE = "/test.Service/Read", "/test.Service/Write"


@pytest.fixture
async def asked():
    """How often each method was called: both are unavailable at first."""
    return {READ: 0, WRITE: 0}


@pytest.fixture
async def channel(asked):
    failures = []

    def failed(name, error):
        failures.append((name, error))

    def method(path):
        async def answer(_request, call):
            assert call.path == path
            asked[path] += 1
            if asked[path] == 1:
                raise RpcError(StatusCode.UNAVAILABLE, "not yet")
            return b"answer"

        return answer

    server = GrpcioServer("127.0.0.1", 0, on_failure=failed)
    for path in asked:
        server.methods.add_unary(path, method(path), deserialize=bytes, serialize=bytes)
    await server.start()
    made = GrpcioChannel(server.address, idempotent_paths=[READ], on_failure=failed)
    yield made
    assert (made.statistics(), server.statistics()) == (None, None)
    await made.close()
    await server.stop(drain_s=0)
    assert failures == []


async def ask(channel, path, *, idempotent=False):
    async with asyncio.timeout(10):
        return await channel.unary(
            path,
            b"",
            serialize=bytes,
            deserialize=bytes,
            timeout_s=5,
            idempotent=idempotent,
        )


async def test_reads_are_repeated_and_nothing_else(channel, asked):
    assert await ask(channel, READ, idempotent=True) == b"answer"
    with pytest.raises(RpcError) as caught:
        await ask(channel, WRITE)
    assert (caught.value.code, caught.value.details) == (StatusCode.UNAVAILABLE, "not yet")
    assert asked == {READ: 2, WRITE: 1}


async def test_what_is_repeated_is_known_from_the_start(channel):
    with pytest.raises(AssertionError, match="not repeated"):
        await ask(channel, WRITE, idempotent=True)
