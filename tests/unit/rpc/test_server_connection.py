import asyncio
import struct

import pytest
import structlog
from hpack import Decoder, Encoder

from highwater.http2.frames import (
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    frame,
    settings_frame,
)
from highwater.rpc import server_connection
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.guard import REFUSALS_MAX, Guard
from highwater.rpc.inner import Inner
from highwater.rpc.status import StatusCode
from highwater.runtime.clock import SystemClock
from highwater.runtime.inner_settings import InnerSettings
from tests.support.certificates import make_authority
from tests.support.http2_wire import REQUEST, frames_of
from tests.support.rpc_demo import eventually, start_demo, unary


class RawConnection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.encoder, self.decoder = Encoder(), Decoder()
        writer.write(PREFACE + settings_frame([]))

    def request(self, number, fields, flags=END_HEADERS | END_STREAM):
        self.writer.write(frame(HEADERS, flags, number, self.encoder.encode(fields)))

    async def frames(self, until):
        received = b""
        async with asyncio.timeout(5):
            while True:
                received += await self.reader.read(1 << 16)
                try:
                    found = list(frames_of(received))
                except struct.error:  # Torn.
                    continue
                if any(kind == until for kind, *_ in found):
                    return found


async def raw(server):
    return RawConnection(*await asyncio.open_connection("127.0.0.1", server.port))


async def test_what_is_no_grpc_gets_415_and_words(server):
    connection = await raw(server)
    fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x")]
    connection.request(1, fields)
    frames = await connection.frames(0)
    [block] = [payload for kind, _, _, payload in frames if kind == HEADERS]
    assert dict(connection.decoder.decode(block))[":status"] == "415"
    [body] = [payload for kind, _, _, payload in frames if kind == 0]
    assert b"gRPC" in body
    connection.writer.close()


async def test_a_stopping_server_refuses_so_that_the_client_may_go_elsewhere(server):
    connection = await raw(server)
    connection.request(1, [*REQUEST[:2], (":path", "/demo.Demo/Silent"), *REQUEST[3:]], END_HEADERS)
    await eventually(lambda: server.calls == 1)
    stopping = asyncio.ensure_future(server.stop(drain_s=0.3))
    await asyncio.sleep(0.05)
    connection.request(3, REQUEST)
    frames = await connection.frames(RST_STREAM)
    assert [(number, payload) for kind, _, number, payload in frames if kind == RST_STREAM] == [
        (3, b"\0\0\0\x07")
    ]
    await stopping
    connection.writer.close()


SECRET = "s" * 20


@pytest.fixture
def inner(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return Inner(InnerSettings(secret_file=path))


@pytest.fixture
async def guarded(demo, inner):
    made = await start_demo(demo, guard=inner.guard())
    yield made
    await made.stop(drain_s=0)


async def test_a_refused_call_is_over_before_it_has_any_state(guarded, demo):
    connection = await raw(guarded)
    connection.request(1, [*REQUEST[:2], (":path", "/demo.Demo/Silent"), *REQUEST[3:]], END_HEADERS)
    frames = await connection.frames(RST_STREAM)
    [block] = [payload for kind, _, _, payload in frames if kind == HEADERS]
    assert dict(connection.decoder.decode(block))["grpc-status"] == "16"
    assert [payload for kind, _, _, payload in frames if kind == RST_STREAM] == [bytes(4)]
    told = guarded.statistics()
    assert (guarded.calls, told.streams, told.held_bytes, demo.calls) == (0, 0, 0, [])
    connection.writer.close()


async def test_refused_calls_end_their_connection(guarded):
    connection = await raw(guarded)
    for number in range(REFUSALS_MAX + 5):
        connection.request(2 * number + 1, REQUEST)
    frames = await connection.frames(GOAWAY)
    assert sum(kind == HEADERS for kind, *_ in frames) <= REFUSALS_MAX
    assert await connection.reader.read() == b""
    await eventually(lambda: guarded.statistics().connections == 0)
    connection.writer.close()


async def test_a_connection_without_a_call_that_shows_the_secret_ends(demo, inner, monkeypatch):
    monkeypatch.setattr(server_connection, "PROOF_S", 0.2)
    server = await start_demo(demo, guard=inner.guard())
    good = Channel(server.address, proof=lambda: inner.proof)
    assert await unary(good, "Reverse", b"ab") == b"ba"
    idle, refused = await raw(server), await raw(server)
    refused.request(1, REQUEST)
    await eventually(lambda: server.statistics().connections == 3)
    await eventually(lambda: server.statistics().connections == 1)
    assert await unary(good, "Reverse", b"ab") == b"ba"
    assert server.statistics().connections_opened == 3, "the good one has stayed"
    for connection in (idle, refused):
        connection.writer.close()
    await good.close()
    await server.stop(drain_s=0)


async def test_names_of_callers_are_asked_but_not_on_the_unix_socket(demo, tmp_path):
    authority = make_authority(tmp_path / "authority")

    def inner_of(name):
        cert, key = authority.issue(name)
        files = {"ca_file": authority.certificate, "cert_file": cert, "key_file": key}
        return Inner(InnerSettings(**files))

    serving, known, unknown = (inner_of(name) for name in ("server", "known", "unknown"))
    with structlog.testing.capture_logs() as logs:
        guard = Guard(
            secret=None,
            names=["known"],
            log=structlog.get_logger(),
            monotonic_ms=SystemClock().monotonic_ms,
        )
        server = await start_demo(demo, guard=guard, tls=lambda: serving.server_tls.context)
        nearby = UnixAddress(str(tmp_path / "socket"))
        await server.serve_beside(nearby)
        ways = [(known, None), (unknown, None), (unknown, nearby)]
        channels = [
            Channel(server.address, tls=lambda i=i: i.client_tls.context, nearby=beside)
            for i, beside in ways
        ]
        assert await unary(channels[0], "Reverse", b"ab") == b"ba"
        with pytest.raises(RpcError) as caught:
            await unary(channels[1], "Reverse", b"ab")
        assert caught.value.code is StatusCode.UNAVAILABLE
        assert await unary(channels[2], "Reverse", b"ab") == b"ba"
    assert server.statistics().unix_connections == 1
    assert {tuple(one["names"]) for one in logs} == {("127.0.0.1", "localhost", "unknown")}
    for channel in channels:
        await channel.close()
    await server.stop(drain_s=0)
