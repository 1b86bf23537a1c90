"""Our channel against grpc.aio's server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import grpc
import grpc.aio
import pytest

from highwater.http2.settings import LocalSettings
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode
from highwater.rpc.transport import Keepalive
from tests.support.certificates import make_certificate, tls_contexts
from tests.support.rpc_demo import DETAILS, Collected, eventually, run_on_uvloop, unary

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
SIZES = (0, 1, 100, 16_379, 16_384, 65_535, 65_536, 1 << 20, 20 << 20)


class Theirs(grpc.GenericRpcHandler):
    """The demo service, as grpc.aio has it."""

    def __init__(self):
        self.cancelled = 0
        self.written = 0

    def service(self, details):
        name = details.method.rpartition("/")[2].lower()
        if name in {"reverse", "refuse"}:
            return grpc.unary_unary_rpc_method_handler(getattr(self, name))
        handler = getattr(self, name, None)
        return handler and grpc.stream_stream_rpc_method_handler(handler)

    async def reverse(self, request, _context):
        return request[::-1]

    async def refuse(self, _request, context):
        context.set_trailing_metadata((("why", "x"),))
        await context.abort(grpc.StatusCode.NOT_FOUND, DETAILS)

    async def echo(self, _requests, context):
        await context.send_initial_metadata((("first", "yes"), ("raw-bin", b"\x00\xff")))
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(b"<" + message + b">")
        context.set_trailing_metadata((("last", "bye"), ("t-bin", b"\x01")))

    async def silent(self, _requests, context):
        try:
            await context.read()
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def flood(self, _requests, context):
        for number in range(int(await context.read())):
            await context.write(number.to_bytes(4, "big") + bytes(1 << 20))
            self.written += 1

    async def slow(self, _requests, context):
        await asyncio.sleep(0.5)
        count = 0
        while await context.read() is not grpc.aio.EOF:
            count += 1
        await context.write(str(count).encode())

    async def meta(self, _requests, context):
        await context.read()
        saw = repr(sorted((key, value) for key, value in context.invocation_metadata()))
        context.set_trailing_metadata((("saw", saw),))


@contextlib.asynccontextmanager
async def served():
    service = Theirs()
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((service,))
    service.port = server.add_insecure_port("127.0.0.1:0")
    service.server = server
    await server.start()
    channel = Channel(f"127.0.0.1:{service.port}")
    yield {"theirs": service, "channel": channel}
    await channel.close()
    await server.stop(0)


@pytest.fixture
async def scene():
    async with served() as made:
        yield made


@pytest.fixture
def theirs(scene):
    return scene["theirs"]


@pytest.fixture
def channel(scene):
    return scene["channel"]


async def test_messages_of_every_size_in_parts_come_back(channel):
    call = Collected(channel, "Echo")
    payload = os.urandom(20 << 20)
    for size in SIZES:
        call.call.send(payload[:size])
    call.call.send([b"a", bytes(70_000), b"", memoryview(payload)[:9]])
    messages = await call.got(len(SIZES) + 1)
    assert [
        message[1:-1] == payload[:size] for message, size in zip(messages, SIZES, strict=False)
    ] == [True] * len(SIZES)
    assert messages[-1] == b"<a" + bytes(70_000) + payload[:9] + b">"
    assert ("raw-bin", b"\x00\xff") in call.call.initial_metadata
    call.call.half_close()
    status = await call.over()
    assert status.code is StatusCode.OK
    assert {("last", "bye"), ("t-bin", b"\x01")} <= set(status.metadata)
    assert call.opened == 1


async def test_unary_calls(channel):
    assert await unary(channel, "Reverse", b"abc") == b"cba"
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Refuse", b"")
    assert (caught.value.code, caught.value.details) == (StatusCode.NOT_FOUND, DETAILS)
    assert ("why", "x") in caught.value.metadata
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Nowhere", b"")
    assert caught.value.code is StatusCode.UNIMPLEMENTED


async def test_metadata_arrives(channel):
    call = Collected(channel, "Meta", metadata=[("k", "v"), ("b-bin", b"\x00\x01\xfe")])
    call.call.send(b"")
    status = await call.over()
    saw = dict(status.metadata)["saw"]
    assert "('k', 'v')" in saw
    assert "('b-bin', b'\\x00\\x01\\xfe')" in saw


async def test_a_deadline_ends_the_call_at_both_ends(channel, theirs):
    call = Collected(channel, "Silent", timeout_s=0.2)
    call.call.send(b"x")
    begun = time.monotonic()
    assert (await call.over()).code is StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - begun < 2
    await eventually(lambda: theirs.cancelled == 1)


async def test_cancel_reaches_the_server(channel, theirs):
    call = Collected(channel, "Silent")
    call.call.send(b"x")
    await call.until(lambda: call.opened)
    await asyncio.sleep(0.05)
    call.call.cancel()
    assert (await call.over()).code is StatusCode.CANCELLED
    await eventually(lambda: theirs.cancelled == 1)


async def test_a_slow_reader_holds_us_back_and_gets_everything(channel):
    call = Collected(channel, "Slow")
    await call.until(lambda: call.opened)
    for _ in range(16):
        call.call.send(bytes(1 << 20))
    assert not call.call.can_send()
    assert call.call.unsent_bytes > 8 << 20
    call.call.half_close()
    assert await call.got(1) == [b"16"]
    assert (await call.over()).code is StatusCode.OK
    assert call.call.unsent_bytes == 0
    assert call.writable == 1


async def test_a_paused_reader_holds_the_server_back(theirs):
    settings = LocalSettings(stream_window=4 << 20, connection_window=8 << 20)
    channel = Channel(f"127.0.0.1:{theirs.port}", settings=settings)
    call = Collected(channel, "Flood")
    call.call.pause_reading()
    call.call.send(b"32")
    await asyncio.sleep(0.5)
    ahead, held = theirs.written, channel.statistics().held_bytes
    assert ahead < 16
    assert 0 < held <= 4 << 20
    assert not call.messages
    call.call.resume_reading()
    assert len(await call.got(32)) == 32
    assert (await call.over()).code is StatusCode.OK
    assert channel.statistics().held_bytes == 0
    await channel.close()


async def test_many_streams_share_a_connection(channel):
    calls = [Collected(channel, "Echo") for _ in range(50)]
    for number, call in enumerate(calls):
        call.call.send(b"%d" % number)
    for number, call in enumerate(calls):
        assert await call.got(1) == [b"<%d>" % number]
    assert channel.statistics().connections == 1


async def test_goaway_lets_calls_end_and_the_next_one_connects_anew(channel, theirs):
    call = Collected(channel, "Echo")
    call.call.send(b"a")
    await call.got(1)
    stopping = asyncio.ensure_future(theirs.server.stop(5))
    await eventually(lambda: not channel.connected)
    call.call.send(b"b")
    assert await call.got(2) == [b"<a>", b"<b>"]
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Reverse", b"abc")
    assert caught.value.code is StatusCode.UNAVAILABLE
    call.call.half_close()
    assert (await call.over()).code is StatusCode.OK
    await stopping
    again = grpc.aio.server(options=OPTIONS)
    again.add_generic_rpc_handlers((theirs,))
    again.add_insecure_port(f"127.0.0.1:{theirs.port}")
    await again.start()
    assert await unary(channel, "Reverse", b"abc", wait_for_ready=True) == b"cba"
    await again.stop(0)


async def test_keepalive_is_answered(theirs):
    keepalive = Keepalive(interval_s=0.05, timeout_s=1.0)
    channel = Channel(f"127.0.0.1:{theirs.port}", keepalive=keepalive)
    call = Collected(channel, "Silent")
    call.call.send(b"x")
    # grpc.aio's server allows two such pings before it complains.
    await asyncio.sleep(0.12)
    assert channel.connected
    assert call.status is None
    await channel.close()


async def test_tls(tmp_path):
    certificate, key = make_certificate(tmp_path)
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((Theirs(),))
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    _, trusting = tls_contexts((certificate, key))
    channel = Channel(f"127.0.0.1:{port}", tls=trusting)
    call = Collected(channel, "Echo")
    call.call.send([b"a", bytes(1 << 20)])
    assert len((await call.got(1))[0]) == (1 << 20) + 3
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    await channel.close()
    await server.stop(0)


@pytest.mark.parametrize(
    "check",
    [
        test_messages_of_every_size_in_parts_come_back,
        test_unary_calls,
        test_a_slow_reader_holds_us_back_and_gets_everything,
        test_a_paused_reader_holds_the_server_back,
        test_goaway_lets_calls_end_and_the_next_one_connects_anew,
    ],
)
def test_on_uvloop(check):
    run_on_uvloop(check, served)
