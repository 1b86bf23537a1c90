from highwater.http2.connection import DRAIN_PING
from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY_FLAG,
    SETTINGS,
    STREAM_ID_MAX,
    UINT32,
    WINDOW_UPDATE,
    frame,
)
from highwater.http2.settings import LocalSettings
from tests.support.http2_wire import RESPONSE, End, RawClient, RawServer, carry, frames_of
from tests.unit.http2.test_frame_reader import reset_codes


def test_a_client_begins_with_preface_settings_and_the_connections_window():
    sent = End(client=True).sent()
    assert sent.startswith(PREFACE)
    kinds = [(kind, number) for kind, _, number, _ in frames_of(sent)]
    assert kinds == [(SETTINGS, 0), (WINDOW_UPDATE, 0)]


def test_a_window_of_the_initial_size_needs_no_update():
    settings = LocalSettings(stream_window=65_535, connection_window=65_535)
    assert [kind for kind, *_ in frames_of(End(client=False, settings=settings).sent())] == [
        SETTINGS
    ]


def test_both_ends_become_ready():
    client, server = End(client=True), End(client=False)
    assert not client.connection.ready
    carry(client, server)
    assert client.connection.ready
    assert server.connection.ready
    assert client.events == server.events == ["settings"]


def test_a_drain_has_two_steps():
    client = RawClient()
    client.ask(client.headers(1))
    connection = client.end.connection
    connection.drain("later")
    connection.drain("again")
    first = list(frames_of(client.end.sent()))
    assert [kind for kind, *_ in first] == [GOAWAY, PING]
    assert UINT32.unpack_from(first[0][3])[0] == STREAM_ID_MAX
    # A stream that was on its way is still taken.
    client.ask(client.headers(3) + b"\0\0\x08\x06\x01\0\0\0\0" + DRAIN_PING)
    assert ("ping ack", DRAIN_PING) in client.end.events
    connection.goaway(ErrorCode.NO_ERROR, "now")
    [(kind, _, _, payload)] = frames_of(client.end.sent())
    assert (kind, UINT32.unpack_from(payload)[0]) == (GOAWAY, 3)
    assert reset_codes(client.ask(client.headers(5))) == {5: ErrorCode.REFUSED_STREAM}
    assert sorted(client.end.heard) == [1, 3]


def test_nothing_is_read_after_a_violation():
    client = RawClient()
    client.ask(b"\0\0\x01\x06\0\0\0\0\0x" + client.headers(1))
    assert client.end.closed
    assert client.end.heard == {}
    client.end.connection.buffer_updated(10, 0.0)
    assert client.end.heard == {}


def test_counters():
    client, server = End(client=True), End(client=False)
    carry(client, server)
    stream, _ = client.open()
    client.open()
    stream.reset(ErrorCode.CANCEL)
    server.connection.goaway(ErrorCode.NO_ERROR, "")
    carry(client, server)
    ours, theirs = client.connection.counters, server.connection.counters
    assert (ours.streams_opened, ours.resets_sent, ours.goaways_received) == (2, 1, 1)
    assert theirs.goaways_sent == 1


def test_a_stream_that_was_refused_does_not_count_in_a_later_goaway():
    client = RawClient()
    client.ask(client.headers(1))
    client.end.connection.goaway(ErrorCode.NO_ERROR, "no more")
    client.ask(client.headers(3))
    [(kind, _, _, payload)] = client.ask(frame(PING, 0, 1, bytes(8)))
    assert (kind, UINT32.unpack_from(payload)[0]) == (GOAWAY, 1)


def test_a_clients_goaway_names_no_stream():
    server = RawServer()
    server.end.open()
    server.end.sent()
    block = UINT32.pack(3) + b"\x10" + server.encoder.encode(RESPONSE)
    answers = server.ask(frame(HEADERS, END_HEADERS | PRIORITY_FLAG, 3, block))
    [(kind, _, _, payload)] = answers
    assert (kind, UINT32.unpack_from(payload)[0]) == (GOAWAY, 0)
