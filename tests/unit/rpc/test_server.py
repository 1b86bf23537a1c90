import asyncio

import pytest
from hpack import Encoder

from highwater.http2.abuse import AbuseLimits
from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    UINT32,
    frame,
    ping_frame,
    settings_frame,
)
from highwater.http2.settings import LocalSettings
from highwater.model.errors import BindError, PortInUseError
from highwater.rpc.addresses import TcpAddress, UnixAddress
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.server import RpcServer
from highwater.rpc.status import StatusCode
from highwater.rpc.transport import Keepalive
from tests.support.certificates import make_certificate, tls_contexts
from tests.support.http2_wire import REQUEST, frames_of
from tests.support.rpc_demo import (
    SERVICE,
    Collected,
    eventually,
    run_on_uvloop,
    scene,
    start_demo,
    unary,
)


async def test_a_second_server_on_the_port_is_refused(server):
    with pytest.raises(PortInUseError, match=server.address):
        await RpcServer(TcpAddress("127.0.0.1", server.port)).start()


async def test_an_address_of_another_host_is_refused():
    with pytest.raises(BindError, match=r"192\.0\.2\.1"):
        await RpcServer(TcpAddress("192.0.2.1", 50_051)).start()


async def test_unix_sockets(demo, tmp_path):
    server = await start_demo(demo, address=UnixAddress(str(tmp_path / "socket")))
    assert server.address == f"unix:{tmp_path}/socket"
    channel = Channel(server.address)
    payload = bytes(range(256)) * 8192
    assert await unary(channel, "Reverse", payload) == payload[::-1]
    await channel.close()
    await server.stop(drain_s=1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def test_tls(demo, certificate):
    served, trusting = tls_contexts(certificate)
    server = await start_demo(demo, tls=served)
    channel = Channel(server.address, tls=trusting)
    payload = bytes(range(256)) * 16_384
    assert await unary(channel, "Reverse", payload) == payload[::-1]
    call = Collected(channel, "Echo")
    call.call.send([payload, b"x"])
    assert await call.got(1) == [b"<" + payload + b"x>"]
    await channel.close()
    await server.stop(drain_s=1)


async def test_tls_without_h2_is_refused_at_both_ends(demo, certificate):
    served, trusting = tls_contexts(certificate)
    server = await start_demo(demo, tls=served)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await server.stop(drain_s=0)

    plain, trusting = tls_contexts(certificate)
    accepted = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=plain)
    port = accepted.sockets[0].getsockname()[1]
    channel = Channel(f"127.0.0.1:{port}", tls=trusting)
    with pytest.raises(RpcError, match="ALPN"):
        await unary(channel, "Reverse", b"")
    await channel.close()
    accepted.close()


async def test_too_many_connections_are_closed(demo):
    server = await start_demo(demo, connections_max=1)
    first, second = Channel(server.address), Channel(server.address)
    assert await unary(first, "Reverse", b"ab") == b"ba"
    with pytest.raises(RpcError) as caught:
        await unary(second, "Reverse", b"ab")
    assert caught.value.code is StatusCode.UNAVAILABLE
    assert server.statistics().connections == 1
    for channel in (first, second):
        await channel.close()
    await server.stop(drain_s=0)


async def test_connections_count_from_accept_with_tls_too(demo, certificate):
    served, trusting = tls_contexts(certificate)
    server = await start_demo(demo, connections_max=1, tls=served)
    channel = Channel(server.address, tls=trusting)
    _, silent = await asyncio.open_connection("127.0.0.1", server.port)
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Reverse", b"ab")
    assert caught.value.code is StatusCode.UNAVAILABLE
    silent.close()
    assert await unary(channel, "Reverse", b"ab", wait_for_ready=True) == b"ba"
    await channel.close()
    await server.stop(drain_s=0)


async def test_a_server_that_could_not_start_removes_nobodys_socket(demo, tmp_path):
    address = UnixAddress(str(tmp_path / "socket"))
    server = await start_demo(demo, address=address)
    second = RpcServer(address)
    with pytest.raises(PortInUseError):
        await second.start()
    await second.stop(drain_s=0)
    assert (tmp_path / "socket").is_socket()
    await server.stop(drain_s=0)
    assert not (tmp_path / "socket").exists()


async def test_too_many_calls_are_refused(demo):
    server = await start_demo(demo, calls_max=1)
    channel = Channel(server.address)
    held = Collected(channel, "Echo")
    held.call.send(b"")
    await held.got(1)
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Reverse", b"ab")
    assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
    held.call.half_close()
    await held.over()
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    await channel.close()
    await server.stop(drain_s=0)


@pytest.mark.parametrize("nbytes", [900, 900_000], ids=["one read", "several reads"])
async def test_requests_that_nobody_completes_have_a_limit_on_each_connection(demo, nbytes):
    server = await start_demo(demo, message_bytes_max=nbytes * 10 // 9)
    channel = Channel(server.address)
    waiting = [Collected(channel, "Reverse") for _ in range(3)]
    for call in waiting:
        call.call.send(bytes(nbytes))
    assert (await waiting[2].over()).code is StatusCode.RESOURCE_EXHAUSTED
    other = Channel(server.address)
    assert await unary(other, "Reverse", bytes(nbytes)) == bytes(nbytes)
    waiting[0].call.half_close()
    assert (await waiting[0].over()).code is StatusCode.OK
    assert await unary(channel, "Reverse", bytes(nbytes)) == bytes(nbytes)
    assert waiting[1].status is None
    assert server.statistics().connections_opened == 2
    for one in (channel, other):
        await one.close()
    await server.stop(drain_s=0)


async def test_more_streams_than_a_connection_may_have_wait(demo):
    server = await start_demo(demo, settings=LocalSettings(streams_max=2))
    channel = Channel(server.address)
    calls = [Collected(channel, "Echo") for _ in range(4)]
    for call in calls:
        call.call.send(b"x")
        call.call.half_close()
    for call in calls:
        assert (await call.over()).code is StatusCode.OK
    assert server.statistics().connections == 1
    await channel.close()
    await server.stop(drain_s=0)


async def test_a_drain_lets_calls_end_and_refuses_new_ones(server, channel, demo):
    running = Collected(channel, "Echo")
    running.call.send(b"a")
    await running.got(1)
    stopping = asyncio.ensure_future(server.stop(drain_s=5))
    await eventually(lambda: not channel.connected)
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Reverse", b"late")
    assert caught.value.code is StatusCode.UNAVAILABLE
    running.call.send(b"b")
    assert await running.got(2) == [b"<a>", b"<b>"]
    running.call.half_close()
    assert (await running.over()).code is StatusCode.OK
    await asyncio.wait_for(stopping, 2)
    assert server.statistics().totals.goaways_sent == 2
    assert server.statistics().connections == 0


async def test_a_drain_waits_for_calls_that_take_longer_than_goaway(
    server, channel, demo, monkeypatch
):
    monkeypatch.setattr("highwater.rpc.server.GOAWAY_PATIENCE_S", 0.05)
    running = Collected(channel, "Echo")
    running.call.send(b"a")
    await running.got(1)
    stopping = asyncio.ensure_future(server.stop(drain_s=5))
    await asyncio.sleep(0.3)
    running.call.send(b"b")
    assert await running.got(2) == [b"<a>", b"<b>"]
    running.call.half_close()
    assert (await running.over()).code is StatusCode.OK
    await asyncio.wait_for(stopping, 2)


async def test_a_drain_ends_with_its_deadline(server, channel, demo):
    stuck = Collected(channel, "Silent")
    stuck.call.send(b"a")
    sleeping = asyncio.ensure_future(unary(channel, "Sleep", b""))
    await eventually(lambda: server.calls == 2)
    await asyncio.wait_for(server.stop(drain_s=0.05), 2)
    assert (await stuck.over()).code is StatusCode.UNAVAILABLE
    with pytest.raises(RpcError) as caught:
        await sleeping
    assert caught.value.code is StatusCode.UNAVAILABLE
    assert server.calls == 0


async def test_a_drain_without_calls_is_quick(server, channel):
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await server.stop(drain_s=30)
    assert loop.time() - begun < 1


async def test_a_flood_is_answered_with_goaway(demo):
    limits = AbuseLimits(control_burst=50, control_per_s=1.0)
    server = await start_demo(demo, limits=limits)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(PREFACE + settings_frame([]) + ping_frame(b"12345678") * 500)
    received = await asyncio.wait_for(reader.read(), 5)
    *_, (kind, _, _, payload) = frames_of(received)
    assert (kind, payload[4:8]) == (7, b"\0\0\0\x0b")
    writer.close()
    await server.stop(drain_s=0)


async def test_rapid_reset_is_answered_with_goaway(demo):
    """CVE-2023-44487: no call is open at a time, and all cost us a handler."""
    limits = AbuseLimits(reset_burst=50, reset_per_s=1.0)
    server = await start_demo(demo, limits=limits)
    request, encoder = {**dict(REQUEST), ":path": f"{SERVICE}/Silent"}, Encoder()
    flood = b"".join(
        frame(HEADERS, END_HEADERS, number, encoder.encode(request))
        + frame(RST_STREAM, 0, number, UINT32.pack(ErrorCode.CANCEL))
        for number in range(1, 401, 2)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(PREFACE + settings_frame([]) + flood)
    received = await asyncio.wait_for(reader.read(), 5)
    *_, (kind, _, _, payload) = frames_of(received)
    assert (kind, payload[4:8]) == (GOAWAY, UINT32.pack(ErrorCode.ENHANCE_YOUR_CALM))
    await eventually(lambda: server.statistics().connections == 0)
    assert len(demo.calls) == len(demo.ends) == 51, "and nothing of what came later"
    assert server.calls == 0
    other = Channel(server.address)
    assert await unary(other, "Reverse", b"ab") == b"ba"
    await other.close()
    writer.close()
    await server.stop(drain_s=0)


async def test_a_client_that_falls_silent_is_given_up(demo):
    server = await start_demo(demo, keepalive=Keepalive(interval_s=0.05, timeout_s=0.05))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(PREFACE + settings_frame([]))
    async with asyncio.timeout(5):
        while await reader.read(1 << 16):
            pass
    await eventually(lambda: server.statistics().connections == 0)
    assert server.statistics().connections_opened == 1
    writer.close()
    await server.stop(drain_s=0)


async def test_statistics(server, channel):
    await unary(channel, "Reverse", bytes(1000))
    call = Collected(channel, "Echo")
    call.call.send(b"a")
    await call.got(1)
    living = server.statistics()
    assert (living.connections, living.connections_opened, living.streams) == (1, 1, 1)
    assert living.totals.streams_opened == 2
    assert living.totals.bytes_received > 1000
    call.call.cancel()
    await channel.close()
    await eventually(lambda: server.statistics().connections == 0)
    gone = server.statistics()
    assert gone.totals.resets_received == 1
    assert gone.totals.bytes_sent >= living.totals.bytes_sent


async def test_a_stalled_client_bounds_what_is_kept_for_it(demo):
    """A client that reads nothing: the server's socket, its output and no more are full."""
    server = await start_demo(demo)
    channel = Channel(server.address)
    call = Collected(channel, "Flood")
    await call.until(lambda: call.opened)
    connection = next(iter(channel._connections))
    connection.transport._transport.pause_reading()
    call.call.send(b"64")
    await eventually(lambda: demo.calls)
    await asyncio.sleep(0.2)
    assert server.statistics().unsent_bytes <= 8 << 20
    assert demo.ends == [], "not everything is sent"
    assert demo.calls[0].unsent_bytes <= 2 << 20, "one message at most"
    connection.transport._transport.resume_reading()
    assert len(await call.got(64)) == 64
    await channel.close()
    await server.stop(drain_s=0)


@pytest.mark.parametrize(
    "check",
    [
        test_unix_sockets,
        test_tls,
        test_tls_without_h2_is_refused_at_both_ends,
        test_connections_count_from_accept_with_tls_too,
        test_a_drain_lets_calls_end_and_refuses_new_ones,
        test_a_drain_ends_with_its_deadline,
        test_a_flood_is_answered_with_goaway,
        test_rapid_reset_is_answered_with_goaway,
        test_a_stalled_client_bounds_what_is_kept_for_it,
    ],
)
def test_on_uvloop(check, tmp_path, certificate):
    run_on_uvloop(check, scene, tmp_path=tmp_path, certificate=certificate)
