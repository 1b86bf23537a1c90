from highwater.http2.errors import ErrorCode
from highwater.http2.frames import RST_STREAM, UINT32, frame, settings_frame
from highwater.http2.settings import MAX_CONCURRENT_STREAMS
from highwater.http2.stream_table import RESETS_REMEMBERED
from tests.support.http2_wire import RESPONSE, RawClient, RawServer, frames_of
from tests.unit.http2.test_frame_reader import goaway_code, reset_codes


def test_a_server_that_has_answered_needs_no_more_of_the_request():
    client = RawClient()
    client.ask(client.headers(1))
    stream = client.end.streams[1]
    stream.send_headers(RESPONSE)
    stream.end([("grpc-status", "0")])
    answers = list(frames_of(client.end.sent()))
    assert reset_codes(answers) == {1: ErrorCode.NO_ERROR}
    assert stream.closed
    # What the client has sent meanwhile is dropped.
    assert client.ask(client.data(1, b"more", end=True)) == []
    assert not client.end.closed


def test_a_client_that_has_its_answer_sends_no_more_of_the_request():
    server = RawServer()
    stream, heard = server.end.open()
    server.end.sent()
    answers = server.ask(server.headers(1, flags=5))
    assert reset_codes(answers) == {1: ErrorCode.NO_ERROR}
    assert heard.events[-1] == ("remote end", 0)
    assert stream.closed


def test_a_client_opens_no_more_streams_than_allowed():
    server = RawServer()
    server.ask(settings_frame([(MAX_CONCURRENT_STREAMS, 1)]))
    assert server.end.connection.has_room
    stream, _ = server.end.open()
    assert not server.end.connection.has_room
    stream.reset(ErrorCode.CANCEL)
    assert server.end.connection.has_room


def test_a_reset_of_a_stream_that_is_over_changes_nothing():
    client = RawClient()
    client.ask(client.headers(1) + frame(RST_STREAM, 0, 1, UINT32.pack(8)))
    client.ask(frame(RST_STREAM, 0, 1, UINT32.pack(8)))
    assert client.end.heard[1].events == [("reset", 8, True)]


def test_resets_are_remembered_up_to_a_limit():
    client = RawClient()
    client.ask(client.headers(1))
    client.end.streams[1].reset(ErrorCode.CANCEL)
    table = client.end.connection._table
    for number in range(3, 3 + 2 * RESETS_REMEMBERED, 2):
        table.reset(number, ErrorCode.CANCEL)
    table.last_peer_id = number
    assert len(table._reset) == RESETS_REMEMBERED
    client.end.sent()
    assert client.ask(client.data(number, b"x")) == []
    assert reset_codes(client.ask(client.data(1, b"x"))) == {1: ErrorCode.STREAM_CLOSED}


def test_headers_of_a_stream_that_was_never_reset_end_the_connection():
    client = RawClient()
    client.ask(client.headers(1, flags=5))
    client.end.streams[1].send_headers(RESPONSE)
    client.end.streams[1].end([("grpc-status", "0")])
    client.end.sent()
    assert goaway_code(client.ask(client.headers(1))) is ErrorCode.STREAM_CLOSED


def test_a_lost_connection_ends_every_stream():
    server = RawServer()
    heards = [server.end.open()[1] for _ in range(3)]
    server.end.connection.lost("gone")
    assert [heard.events for heard in heards] == [[("lost", False)]] * 3
    assert server.end.connection.streams == 0
    assert not server.end.connection.has_room
