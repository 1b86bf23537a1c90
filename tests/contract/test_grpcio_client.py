"""grpcio's clients, asynchronous and not, against our server."""

from __future__ import annotations

import asyncio
import contextlib
import os

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.http2.settings import LocalSettings
from highwater.rpc.addresses import TcpAddress
from highwater.rpc.health import RpcHealth
from highwater.rpc.server import RpcServer
from highwater.rpc.status import StatusCode
from highwater.rpc.transport import Keepalive
from tests.support.certificates import make_certificate, tls_contexts
from tests.support.rpc_demo import (
    DETAILS,
    SERVICE,
    Demo,
    eventually,
    run_on_uvloop,
    scene,
    start_demo,
)

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
SIZES = (0, 1, 100, 16_379, 16_384, 65_535, 65_536, 1 << 20, 20 << 20)


@pytest.fixture
def demo():
    return Demo()


@pytest.fixture
async def server(demo):
    made = await start_demo(demo)
    yield made
    await made.stop(drain_s=0)


@pytest.fixture
async def channel(server):
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as made:
        yield made


@contextlib.asynccontextmanager
async def served():
    async with (
        scene() as made,
        grpc.aio.insecure_channel(made["server"].address, options=OPTIONS) as channel,
    ):
        yield {**made, "channel": channel}


def stream(channel, method):
    return channel.stream_stream(f"{SERVICE}/{method}")()


async def test_messages_of_every_size_come_back(channel):
    call = stream(channel, "Echo")
    payload = os.urandom(20 << 20)
    same = []
    for size in SIZES:
        await call.write(payload[:size])
        same.append((await call.read())[1:-1] == payload[:size])
    assert same == [True] * len(SIZES)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert dict(await call.initial_metadata())["raw-bin"] == b"\x00\xff"
    trailers = dict(await call.trailing_metadata())
    assert (trailers["last"], trailers["t-bin"]) == ("bye", b"\x01")
    assert await call.code() is grpc.StatusCode.OK


async def test_unary_calls(channel):
    payload = os.urandom(1 << 20)
    reverse = channel.unary_unary(f"{SERVICE}/Reverse")
    assert await reverse(b"abc", timeout=10) == b"cba"
    assert await reverse(payload, timeout=10) == payload[::-1]


@pytest.mark.parametrize(
    ("method", "code", "details"),
    [
        ("Fails", grpc.StatusCode.FAILED_PRECONDITION, DETAILS),
        ("Refuse", grpc.StatusCode.NOT_FOUND, DETAILS),
        ("Bug", grpc.StatusCode.UNKNOWN, "ZeroDivisionError in a handler"),
        ("Nowhere", grpc.StatusCode.UNIMPLEMENTED, f"Method not found: {SERVICE}/Nowhere"),
    ],
)
async def test_statuses(channel, server, demo, method, code, details):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"{SERVICE}/{method}")(b"x", timeout=10)
    assert (caught.value.code(), caught.value.details()) == (code, details)
    assert len(demo.failures) == (method == "Bug")
    assert server.statistics().connections == 1


async def test_metadata_arrives(channel):
    call = channel.stream_stream(f"{SERVICE}/Meta")(
        metadata=(("k", "v"), ("b-bin", b"\x00\x01\xfe"))
    )
    await call.done_writing()
    saw = dict(await call.trailing_metadata())["saw"]
    assert "('k', 'v')" in saw
    assert "('b-bin', b'\\x00\\x01\\xfe')" in saw


async def test_a_deadline_ends_the_call_at_both_ends(channel, demo):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"{SERVICE}/Sleep")(b"x", timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await eventually(lambda: demo.ends)


async def test_cancel_and_half_close_reach_the_handler(channel, demo):
    call = stream(channel, "Silent")
    await call.write(b"x")
    await call.done_writing()
    await eventually(lambda: demo.half_closes == 1)
    call.cancel()
    await eventually(lambda: demo.ends)
    [(_, status)] = demo.ends
    assert status.code is StatusCode.CANCELLED


async def test_a_slow_reader_gets_everything_and_holds_us_back(channel, demo):
    call = stream(channel, "Flood")
    await call.write(b"32")
    await asyncio.sleep(0.3)
    assert demo.ends == [], "not everything is sent"
    assert demo.calls[0].unsent_bytes <= 2 << 20, "one message at most"
    numbers = []
    while (message := await call.read()) is not grpc.aio.EOF:
        assert len(message) == (1 << 20) + 4
        numbers.append(int.from_bytes(message[:4], "big"))
    assert numbers == list(range(32))


async def test_a_paused_handler_holds_its_client_back(demo):
    settings = LocalSettings(stream_window=4 << 20, connection_window=8 << 20)
    server = await start_demo(demo, settings=settings)
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        call = stream(channel, "Slow")
        written = 0

        async def write():
            nonlocal written
            for _ in range(32):
                await call.write(bytes(1 << 20))
                written += 1
            await call.done_writing()

        writing = asyncio.ensure_future(write())
        await asyncio.sleep(0.5)
        assert written < 16
        assert 0 < server.statistics().held_bytes <= 4 << 20
        demo.calls[0].resume_reading()
        assert await call.read() == b"32"
        await writing
    await server.stop(drain_s=0)


async def test_many_streams(channel):
    calls = [stream(channel, "Echo") for _ in range(50)]
    for number, call in enumerate(calls):
        await call.write(b"%d" % number)
    assert [await call.read() for call in calls] == [b"<%d>" % number for number in range(50)]


async def test_a_drain_lets_calls_end_and_refuses_new_ones(channel, server):
    call = stream(channel, "Echo")
    await call.write(b"a")
    assert await call.read() == b"<a>"
    stopping = asyncio.ensure_future(server.stop(drain_s=5))
    await asyncio.sleep(0.1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"{SERVICE}/Reverse")(b"late", timeout=2)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await call.write(b"b")
    assert await call.read() == b"<b>"
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    await asyncio.wait_for(stopping, 2)


async def test_a_drain_ends_with_its_deadline(channel, server):
    call = stream(channel, "Silent")
    await call.write(b"a")
    await asyncio.sleep(0.1)
    await asyncio.wait_for(server.stop(drain_s=0.2), 2)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_hanging_client_is_given_up(demo):
    server = await start_demo(demo, keepalive=Keepalive(interval_s=0.1, timeout_s=0.1))
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
    await eventually(lambda: server.statistics().connections == 1)
    await eventually(lambda: server.statistics().connections == 0)
    writer.close()
    await server.stop(drain_s=0)


async def test_grpcio_answers_our_keepalive(demo):
    server = await start_demo(demo, keepalive=Keepalive(interval_s=0.05, timeout_s=0.5))
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = stream(channel, "Silent")
        await call.write(b"x")
        await asyncio.sleep(0.4)
        assert server.statistics().connections == 1
        call.cancel()
    await server.stop(drain_s=0)


async def test_tls(demo, tmp_path):
    certificate = make_certificate(tmp_path)
    served_by, _ = tls_contexts(certificate)
    server = await start_demo(demo, tls=served_by)
    credentials = grpc.ssl_channel_credentials(certificate[0].read_bytes())
    async with grpc.aio.secure_channel(server.address, credentials, options=OPTIONS) as channel:
        call = stream(channel, "Echo")
        await call.write(bytes(1 << 20))
        assert len(await call.read()) == (1 << 20) + 2
        assert await channel.unary_unary(f"{SERVICE}/Reverse")(b"ab", timeout=10) == b"ba"
        call.cancel()
    await server.stop(drain_s=0)


async def test_the_synchronous_client(server):
    def calls():
        with grpc.insecure_channel(server.address) as channel:
            messages = iter([b"a", b"b" * 100_000])
            echoed = list(channel.stream_stream(f"{SERVICE}/Echo")(messages, timeout=10))
            assert echoed == [b"<a>", b"<" + b"b" * 100_000 + b">"]
        with grpc.insecure_channel(server.address, compression=grpc.Compression.Gzip) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"{SERVICE}/Reverse")(b"x" * 1000, timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    await asyncio.get_running_loop().run_in_executor(None, calls)


async def test_health():
    health = RpcHealth(("demo.Demo",))
    await health.set_serving(serving=True)
    server = RpcServer(TcpAddress("127.0.0.1", 0))
    health.add_to(server.methods)
    await server.start()
    serving = health_pb2.HealthCheckResponse
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="demo.Demo")
        assert (await stub.Check(request, timeout=5)).status == serving.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=5)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = stub.Watch(request)
        assert (await watch.read()).status == serving.SERVING
        await health.set_serving(serving=False)
        assert (await watch.read()).status == serving.NOT_SERVING
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="other"))
        assert (await unknown.read()).status == serving.SERVICE_UNKNOWN
        watch.cancel()
        unknown.cancel()
    await server.stop(drain_s=0)


@pytest.mark.parametrize(
    "check",
    [
        test_messages_of_every_size_come_back,
        test_unary_calls,
        test_a_slow_reader_gets_everything_and_holds_us_back,
        test_a_paused_handler_holds_its_client_back,
        test_a_drain_lets_calls_end_and_refuses_new_ones,
        test_the_synchronous_client,
    ],
)
def test_on_uvloop(check):
    run_on_uvloop(check, served)
