from highwater.http2.errors import ErrorCode
from highwater.http2.frames import RST_STREAM
from highwater.http2.stream import NOBODY, Nobody
from tests.support.http2_wire import RESPONSE, End, carry, frames_of


def pair():
    client, server = End(client=True), End(client=False)
    carry(client, server)
    return client, server


def test_a_whole_exchange():
    client, server = pair()
    stream, heard = client.open()
    stream.send(b"ab", [b"c", b"", b"d"], 4)
    stream.end()
    carry(client, server)
    answering = server.streams[1]
    assert server.heard[1].payload == b"abcd"
    answering.send_headers(RESPONSE)
    answering.send(b"", [b"xyz"], 3)
    answering.end([("grpc-status", "0")])
    carry(client, server)
    assert heard.payload == b"xyz"
    assert [event[0] for event in heard.events] == [
        "local end",
        "response",
        "trailers",
        "remote end",
    ]
    assert server.heard[1].events == [("remote end", 4), ("local end",)]
    assert stream.closed
    assert answering.closed
    assert client.connection.streams == server.connection.streams == 0


def test_nothing_is_sent_after_the_end():
    client, server = pair()
    stream, _ = client.open()
    stream.end()
    stream.send(b"late", [], 4)
    stream.end()
    carry(client, server)
    assert server.heard[1].payload == b""


def test_reset_is_heard_by_the_peer_and_not_by_its_own_owner():
    client, server = pair()
    stream, heard = client.open()
    carry(client, server)
    stream.reset(ErrorCode.CANCEL)
    stream.reset(ErrorCode.CANCEL)
    carry(client, server)
    assert heard.events == []
    assert server.heard[1].events == [("reset", int(ErrorCode.CANCEL), True)]
    assert client.connection.counters.resets_sent == 1


def test_reset_drops_what_has_not_been_sent():
    client, _ = pair()
    stream, _ = client.open()
    stream.send(b"", [bytes(30 << 20)], 30 << 20)
    stream.reset(ErrorCode.CANCEL)
    assert stream.unsent_bytes == 0
    *_, last = frames_of(client.sent())
    assert last[0] == RST_STREAM
    assert client.sent() == b""


def test_a_closed_stream_knows_its_owner_no_more():
    client, _ = pair()
    stream, _ = client.open()
    stream.reset(ErrorCode.CANCEL)
    assert stream.owner is NOBODY
    assert stream.payload is NOBODY


def test_nobody_drops_everything():
    nobody = Nobody()
    nobody.take(bytearray(3), 0, 3)
    assert nobody.room(100) is None


def test_held_payload_of_a_closed_stream_is_released_by_its_sink():
    client, server = pair()
    stream, _ = client.open()
    stream.send(b"", [bytes(1000)], 1000)
    carry(client, server)
    held = server.streams[1]
    held.hold(1000)
    stream.reset(ErrorCode.CANCEL)
    carry(client, server)
    assert server.connection.held_bytes == 1000
    held.release(1000)
    assert server.connection.held_bytes == 0
