import pytest

from highwater.http2.abuse import AbuseLimits
from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PRIORITY_FLAG,
    UINT32,
    frame,
)
from highwater.http2.header_blocks import depends_on_itself
from highwater.http2.settings import LocalSettings
from tests.support.http2_wire import REQUEST, RESPONSE, RawClient, RawServer
from tests.unit.http2.test_frame_reader import goaway_code, reset_codes


def opened(client):
    return [event[1] for event in client.end.events if event[0] == "request"]


def test_a_block_in_pieces_padded_and_with_a_priority():
    client = RawClient()
    block = client.encoder.encode(REQUEST)
    first = bytes([4]) + UINT32.pack(0) + b"\x10" + block[:5] + bytes(4)
    client.ask(
        frame(HEADERS, PADDED | PRIORITY_FLAG | END_STREAM, 1, first)
        + frame(CONTINUATION, 0, 1, block[5:9])
        + frame(CONTINUATION, END_HEADERS, 1, block[9:])
    )
    assert opened(client) == [1]
    assert client.end.heard[1].events == [("remote end", 0)]


@pytest.mark.parametrize(
    "between",
    [frame(PING, 0, 0, bytes(8)), frame(CONTINUATION, END_HEADERS, 3, b""), frame(0, 0, 1, b"x")],
)
def test_nothing_may_come_between(between):
    client = RawClient()
    answers = client.ask(client.headers(1, flags=0) + between)
    assert goaway_code(answers) is ErrorCode.PROTOCOL_ERROR


def test_a_continuation_of_nothing():
    client = RawClient()
    answers = client.ask(frame(CONTINUATION, END_HEADERS, 1, b""))
    assert goaway_code(answers) is ErrorCode.PROTOCOL_ERROR


def test_a_block_without_end():
    client = RawClient()
    answers = client.ask(client.headers(1, flags=0) + frame(CONTINUATION, 0, 1, bytes(16_000)) * 3)
    assert goaway_code(answers) is ErrorCode.ENHANCE_YOUR_CALM


def test_empty_continuations_are_a_flood():
    client = RawClient(limits=AbuseLimits(control_burst=50, control_per_s=0.0))
    answers = client.ask(client.headers(1, flags=0) + frame(CONTINUATION, 0, 1, b"") * 60)
    assert goaway_code(answers) is ErrorCode.ENHANCE_YOUR_CALM


def test_more_header_fields_than_our_settings_allow():
    """Not only in bytes on the wire: a few of them may stand for fields in the table."""
    client = RawClient(settings=LocalSettings(header_list_bytes_max=1_000))
    long = [*REQUEST, ("key", "v" * 300)]
    client.ask(client.headers(1, long))
    assert opened(client) == [1]
    answers = client.ask(client.headers(3, [*long, *[("key", "v" * 300)] * 2]))
    assert goaway_code(answers) is ErrorCode.COMPRESSION_ERROR
    assert opened(client) == [1]


def test_malformed_requests_cost_the_stream_and_keep_the_table():
    client = RawClient()
    answers = client.ask(
        client.headers(1, [("key", "value")]) + client.headers(3, [*REQUEST, ("key", "value")])
    )
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}
    assert opened(client) == [3]


@pytest.mark.parametrize("number", [0, 2])
def test_streams_that_no_client_opens(number):
    client = RawClient()
    assert goaway_code(client.ask(client.headers(number))) is ErrorCode.PROTOCOL_ERROR


def test_a_stream_must_not_be_opened_again():
    client = RawClient()
    answers = client.ask(client.headers(5) + client.headers(3))
    assert goaway_code(answers) is ErrorCode.STREAM_CLOSED


@pytest.mark.parametrize(
    ("payload", "flags", "code"),
    [
        (b"", PADDED, ErrorCode.FRAME_SIZE_ERROR),
        (bytes([9]) + b"abc", PADDED, ErrorCode.PROTOCOL_ERROR),
        (bytes(4), PRIORITY_FLAG, ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_frames_that_are_too_short(payload, flags, code):
    client = RawClient()
    assert goaway_code(client.ask(frame(HEADERS, flags | END_HEADERS, 1, payload))) is code


def test_a_stream_that_depends_on_itself():
    assert depends_on_itself(3, UINT32.pack(3 | 1 << 31))
    client = RawClient()
    block = UINT32.pack(1) + b"\x10" + client.encoder.encode(REQUEST)
    answers = client.ask(frame(HEADERS, END_HEADERS | PRIORITY_FLAG, 1, block))
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}


def test_more_streams_than_allowed_are_refused():
    client = RawClient(settings=LocalSettings(streams_max=1))
    answers = client.ask(client.headers(1) + client.headers(3))
    assert reset_codes(answers) == {3: ErrorCode.REFUSED_STREAM}
    assert opened(client) == [1]


def test_trailers_of_a_request_end_it():
    client = RawClient()
    client.ask(client.headers(1) + client.headers(1, [("k", "v")], END_HEADERS | END_STREAM))
    assert client.end.heard[1].events == [("trailers", [("k", "v")]), ("remote end", 0)]


@pytest.mark.parametrize(
    ("fields", "flags"),
    [([("k", "v")], END_HEADERS), ([(":path", "/")], END_HEADERS | END_STREAM)],
)
def test_malformed_trailers(fields, flags):
    client = RawClient()
    answers = client.ask(client.headers(1) + client.headers(1, fields, flags))
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}


# ---- a client's ----


@pytest.fixture
def server():
    made = RawServer()
    made.end.open()
    made.end.sent()
    return made


def test_a_response_and_its_trailers(server):
    server.ask(
        server.headers(1) + server.headers(1, [("grpc-status", "0")], END_HEADERS | END_STREAM)
    )
    assert server.end.heard[1].events == [
        ("response", 200, RESPONSE[1:]),
        ("trailers", [("grpc-status", "0")]),
        ("remote end", 0),
    ]


def test_interim_responses_are_skipped(server):
    server.ask(server.headers(1, [(":status", "100")]) + server.headers(1))
    assert server.end.heard[1].events == [("response", 200, RESPONSE[1:])]


def test_an_interim_response_must_not_be_the_end(server):
    answers = server.ask(server.headers(1, [(":status", "100")], END_HEADERS | END_STREAM))
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}


def test_data_before_the_response(server):
    answers = server.ask(frame(0, 0, 1, b"x"))
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}
    assert server.end.heard[1].events == [("reset", 1, False)]


def test_a_server_opens_no_streams(server):
    assert goaway_code(server.ask(server.headers(3))) is ErrorCode.PROTOCOL_ERROR


def test_late_trailers_of_a_cancelled_stream_are_ignored(server):
    server.end.streams[1].reset(ErrorCode.CANCEL)
    answers = server.ask(
        server.headers(1)
        + frame(0, 0, 1, b"x")
        + server.headers(1, [("grpc-status", "0")], END_HEADERS | END_STREAM)
    )
    assert [kind for kind, *_ in answers] == [0x3]
    assert not server.end.closed
