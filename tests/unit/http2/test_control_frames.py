import pytest

from highwater.http2.abuse import AbuseLimits
from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    ACK,
    DATA,
    GOAWAY,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    UINT32,
    WINDOW_UPDATE,
    frame,
    goaway_frame,
    settings_frame,
    window_update_frame,
)
from highwater.http2.settings import INITIAL_WINDOW_SIZE, LocalSettings
from tests.support.http2_wire import End, RawClient, RawServer, frames_of
from tests.unit.http2.test_frame_reader import goaway_code, reset_codes

CALM = AbuseLimits(control_burst=20, control_per_s=0.0, reset_burst=20, reset_per_s=0.0)
RESETS = AbuseLimits(reset_burst=20, reset_per_s=0.0)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (window_update_frame(0, 0), ErrorCode.PROTOCOL_ERROR),
        (window_update_frame(0, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (window_update_frame(7, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 7, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (frame(PUSH_PROMISE, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_violations_that_end_the_connection(data, code):
    client = RawClient()
    client.ask(client.headers(1))
    assert goaway_code(client.ask(data)) is code
    assert client.end.heard[1].events == [("lost", False)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (window_update_frame(1, 0), ErrorCode.PROTOCOL_ERROR),
        (window_update_frame(1, (1 << 31) - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(PRIORITY, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 1, UINT32.pack(1) + b"\x10"), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_violations_that_end_the_stream(data, code):
    client = RawClient()
    client.ask(client.headers(1))
    assert reset_codes(client.ask(data)) == {1: code}
    assert client.end.heard[1].events == [("reset", int(code), False)]


def test_settings_must_come_first():
    end = End(client=True)
    end.sent()
    end.feed(frame(PING, 0, 0, bytes(8)))
    assert goaway_code(frames_of(end.sent())) is ErrorCode.PROTOCOL_ERROR


def test_pings_are_answered_and_their_answers_reported():
    client = RawClient()
    assert client.ask(frame(PING, 0, 0, b"12345678")) == [(PING, ACK, 0, b"12345678")]
    client.ask(frame(PING, ACK, 0, b"12345678"))
    assert ("ping ack", b"12345678") in client.end.events


def test_unknown_frames_are_ignored():
    client = RawClient()
    assert client.ask(frame(0x42, 0xFF, 3, b"whatever")) == []


def test_a_larger_initial_window_is_acknowledged_before_it_is_used():
    # grpcio counts it as given from the ACK on, and resets the stream otherwise.
    client = RawClient()
    client.ask(client.headers(1))
    client.end.streams[1].send(b"", [bytes(100_000)], 100_000)
    client.end.sent()
    answers = client.ask(
        window_update_frame(0, 1 << 20) + settings_frame([(INITIAL_WINDOW_SIZE, 1 << 20)])
    )
    assert [kind for kind, *_ in answers[:2]] == [SETTINGS, DATA]
    assert sum(len(payload) for kind, _, _, payload in answers if kind == DATA) == 100_000 - 65_535


def test_a_smaller_initial_window_makes_the_streams_window_negative():
    client = RawClient()
    client.ask(client.headers(1))
    client.end.streams[1].send(b"", [bytes(60_000)], 60_000)
    client.end.sent()
    client.ask(settings_frame([(INITIAL_WINDOW_SIZE, 1_000)]))
    client.end.streams[1].send(b"", [b"x"], 1)
    assert list(frames_of(client.end.sent())) == []
    assert [len(p) for k, _, _, p in client.ask(window_update_frame(1, 60_000)) if k == DATA] == [1]


def test_an_initial_window_that_overflows_a_stream():
    client = RawClient()
    client.ask(client.headers(1) + window_update_frame(1, (1 << 31) - 1 - 65_535))
    answers = client.ask(settings_frame([(INITIAL_WINDOW_SIZE, 65_536)]))
    assert goaway_code(answers) is ErrorCode.FLOW_CONTROL_ERROR


def test_goaway_of_a_server_ends_what_it_has_not_handled():
    server = RawServer()
    for _ in range(2):
        server.end.open()
    server.end.sent()
    server.ask(goaway_frame(1, 0, "bye"))
    assert server.end.heard[1].events == []
    assert server.end.heard[3].events == [("lost", True)]
    assert ("goaway", 0, "bye") in server.end.events
    assert not server.end.connection.has_room


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)),
        settings_frame([]),
        frame(SETTINGS, ACK, 0),
        frame(PRIORITY, 0, 9, bytes(5)),
        window_update_frame(0, 1),
        frame(0x77, 0, 0, b""),
        frame(0x77, 0, 0, bytes(40_000)),
        goaway_frame(0, 0),
    ],
)
def test_floods_are_calmed(flood):
    client = RawClient(limits=CALM)
    assert goaway_code(client.ask(flood * 30)) is ErrorCode.ENHANCE_YOUR_CALM


def test_a_peer_that_takes_its_time_is_none():
    client = RawClient(limits=AbuseLimits(control_burst=20, control_per_s=10.0))
    for second in range(10):
        client.end.now_s = float(second)
        client.ask(frame(PING, 0, 0, bytes(8)) * 10)
    assert not client.end.closed


def test_rapid_reset_is_calmed():
    client = RawClient(limits=CALM)
    flood = b"".join(
        client.headers(number) + frame(RST_STREAM, 0, number, UINT32.pack(8))
        for number in range(1, 99, 2)
    )
    assert goaway_code(client.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM
    assert len(client.end.heard) == 21


def test_making_us_reset_is_calmed():
    client = RawClient(limits=CALM)
    flood = b"".join(
        client.headers(number) + window_update_frame(number, 0) for number in range(1, 99, 2)
    )
    assert goaway_code(client.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "after",
    [
        lambda client, number: client.data(number, b"x"),
        lambda _, number: frame(RST_STREAM, 0, number, UINT32.pack(8)),
    ],
    ids=["DATA", "RST_STREAM"],
)
def test_frames_of_streams_that_the_peer_has_reset_are_calmed(after):
    client = RawClient(limits=AbuseLimits(control_burst=20, control_per_s=0.0))
    flood = b"".join(
        client.headers(number)
        + frame(RST_STREAM, 0, number, UINT32.pack(8))
        + after(client, number)
        for number in range(1, 99, 2)
    )
    assert goaway_code(client.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM
    assert 10 < len(client.end.heard) <= 20


def test_streams_beyond_the_limit_are_calmed():
    client = RawClient(limits=RESETS, settings=LocalSettings(streams_max=1))
    flood = b"".join(client.headers(number) for number in range(1, 99, 2))
    assert goaway_code(client.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM
    assert len(client.end.heard) == 1


def test_violations_of_streams_are_calmed():
    client = RawClient(limits=RESETS)
    flood = b"".join(client.headers(number, [("key", "value")]) for number in range(1, 99, 2))
    assert goaway_code(client.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM
    assert client.end.heard == {}


def test_interim_responses_without_end_are_calmed():
    server = RawServer(limits=CALM)
    server.end.open()
    server.end.sent()
    flood = b"".join(server.headers(1, [(":status", "100")]) for _ in range(30))
    assert goaway_code(server.ask(flood)) is ErrorCode.ENHANCE_YOUR_CALM


def test_large_window_updates_are_paid_for():
    client = RawClient(limits=CALM)
    client.ask(client.headers(1))
    client.ask(window_update_frame(1, 4096) * 100)
    assert not client.end.closed


@pytest.mark.parametrize("payload", [bytes(4), UINT32.pack(9) + b"\x10"])
@pytest.mark.parametrize("peer", [RawClient, RawServer])
def test_nobody_resets_an_idle_stream_for_its_priority(payload, peer):
    answers = peer().ask(frame(PRIORITY, 0, 9, payload))
    assert reset_codes(answers) == {}
    assert goaway_code(answers) in {ErrorCode.FRAME_SIZE_ERROR, ErrorCode.PROTOCOL_ERROR}
