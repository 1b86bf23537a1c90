import asyncio

import grpc
import grpc.aio
import pytest

from highwater.http2.frames import PREFACE, settings_frame
from highwater.model.errors import BindError, PortInUseError
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.health import GrpcHealth

METHOD = "/demo.Demo/Echo"


class Echo(grpc.GenericRpcHandler):
    """Answers after `gate` opens, with as many bytes as were sent."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.echo)

    async def echo(self, request, _context):
        self.entered.set()
        await self.gate.wait()
        return request


@pytest.fixture
async def served():
    echo = Echo()
    server = GrpcServer("127.0.0.1", 0, message_bytes_max=8 << 20)
    server.register(lambda inner: inner.add_generic_rpc_handlers((echo,)))
    await server.start()
    channel = open_channel(server.address, message_bytes_max=8 << 20)
    yield server, echo, channel
    await channel.close()
    await server.stop(drain_s=0)


async def test_messages_larger_than_the_library_default_pass(served):
    _, _, channel = served
    payload = bytes(5 << 20)
    assert await channel.unary_unary(METHOD)(payload, timeout=10) == payload


async def test_messages_above_the_limit_are_refused(served):
    _, _, channel = served
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(METHOD)(bytes(9 << 20), timeout=10)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_second_server_on_the_port_is_refused(served):
    server, _, _ = served
    with pytest.raises(PortInUseError, match=server.address):
        await GrpcServer("127.0.0.1", server.port).start()


async def test_an_address_of_another_host_is_refused():
    with pytest.raises(BindError, match=r"192\.0\.2\.1"):
        await GrpcServer("192.0.2.1", 50051).start()


async def test_drain_lets_running_calls_end_and_refuses_new_ones(served):
    server, echo, channel = served
    echo.gate.clear()
    running = channel.unary_unary(METHOD)(b"running", timeout=10)
    await asyncio.wait_for(echo.entered.wait(), 5)
    stopping = asyncio.gather(server.stop(drain_s=5))
    await asyncio.sleep(0.05)
    with pytest.raises(grpc.aio.AioRpcError):
        await channel.unary_unary(METHOD)(b"late", timeout=1)
    echo.gate.set()
    assert await running == b"running"
    await asyncio.wait_for(stopping, 5)


async def test_drain_ends_with_its_deadline(served):
    server, echo, channel = served
    echo.gate.clear()
    stuck = channel.unary_unary(METHOD)(b"stuck", timeout=10)
    await asyncio.wait_for(echo.entered.wait(), 5)
    await asyncio.wait_for(server.stop(drain_s=0.05), 5)
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await stuck


async def test_connections_without_a_call_are_closed_if_that_is_asked_for():
    server, patient = GrpcServer("127.0.0.1", 0, idle_ms_max=300), GrpcServer("127.0.0.1", 0)
    idle = []
    for one in (server, patient):
        one.register(GrpcHealth().add_to_server)
        await one.start()
        reader, stream = await asyncio.open_connection("127.0.0.1", one.port)
        stream.write(PREFACE + settings_frame([]))
        idle.append((reader, stream))
    closed, stays = (asyncio.ensure_future(reader.read(-1)) for reader, _ in idle)
    async with asyncio.timeout(10):
        assert await closed
    assert not stays.done()
    for _, stream in idle:
        stream.close()
    for one in (server, patient):
        await one.stop(drain_s=0)
    await stays
