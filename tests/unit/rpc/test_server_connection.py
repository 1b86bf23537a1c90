import asyncio
import struct

from hpack import Decoder, Encoder

from highwater.http2.frames import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    frame,
    settings_frame,
)
from tests.support.http2_wire import REQUEST, frames_of
from tests.support.rpc_demo import eventually


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
