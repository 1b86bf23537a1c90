import pytest

from highwater.http2.abuse import AbuseLimits
from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    DATA,
    END_STREAM,
    GOAWAY,
    PADDED,
    PING,
    RST_STREAM,
    SETTINGS,
    UINT32,
    WINDOW_UPDATE,
    frame,
    settings_frame,
)
from highwater.http2.settings import LocalSettings
from tests.support.http2_wire import REQUEST, End, Heard, RawClient, frames_of


def goaway_code(frames):
    [code] = [UINT32.unpack_from(payload, 4)[0] for kind, _, _, payload in frames if kind == GOAWAY]
    return ErrorCode(code)


def reset_codes(frames):
    return {
        number: ErrorCode(UINT32.unpack(payload)[0])
        for kind, _, number, payload in frames
        if kind == RST_STREAM
    }


@pytest.fixture
def client():
    made = RawClient()
    made.ask(made.headers(1))
    return made


def test_payload_arrives_and_the_end_after_it(client):
    assert client.ask(client.data(1, b"abc") + client.data(1, b"def", end=True)) == []
    assert client.end.heard[1].payload == b"abcdef"
    assert client.end.heard[1].events == [("remote end", 6)]


def test_a_long_frame_is_received_where_the_sink_says(client):
    heard = client.end.heard[1]
    heard.in_place = 100_000
    payload = bytes(range(256)) * 4096
    client.ask(client.data(1, payload))
    assert heard.payload == payload
    assert heard.taken_in_place >= len(payload) - (64 << 10)


def test_a_sink_that_closes_its_stream_gets_nothing_more(client):
    heard = client.end.heard[1]
    heard.in_place = 1 << 20
    payload = bytes(200_000)
    data = client.data(1, payload)
    client.end.feed(data[:100_000])
    client.end.streams[1].reset(ErrorCode.CANCEL)
    client.end.feed(data[100_000:] + client.headers(3))
    assert len(heard.payload) == 100_000 - 9
    assert ("request", 3, "/test.Test/Call") in client.end.events


def test_padding_is_dropped_and_counts_as_consumed(client):
    payload = bytes([200]) + b"abc" + bytes(200)
    answers = client.ask(frame(DATA, PADDED | END_STREAM, 1, payload))
    assert client.end.heard[1].events == [("remote end", 3)]
    assert answers == []
    assert client.end.connection.held_bytes == 0


@pytest.mark.parametrize("payload", [b"", bytes([3, 1, 2]), bytes([1])])
def test_more_padding_than_payload(client, payload):
    assert goaway_code(client.ask(frame(DATA, PADDED, 1, payload))) is ErrorCode.PROTOCOL_ERROR


def test_a_server_needs_the_preface():
    end = End(client=False)
    end.feed(b"GET / HTTP/1.1\r\n\r\n")
    assert end.closed
    assert goaway_code(frames_of(end.sent())) is ErrorCode.PROTOCOL_ERROR


def test_the_preface_may_come_in_pieces():
    end = End(client=False)
    end.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings_frame([]), lambda _left: 1)
    assert end.events == ["settings"]


def test_a_frame_above_the_limit(client):
    assert goaway_code(client.ask(frame(DATA, 0, 1, bytes((2 << 20) + 1)))) is (
        ErrorCode.FRAME_SIZE_ERROR
    )


def test_a_control_frame_that_nobody_needs_to_be_so_long(client):
    answers = client.ask(frame(SETTINGS, 0, 0, bytes(6 * 6000)))
    assert goaway_code(answers) is ErrorCode.FRAME_SIZE_ERROR


def test_long_frames_of_unknown_types_are_dropped(client):
    answers = client.ask(frame(0x55, 0xFF, 1, bytes(300_000)) + frame(PING, 0, 0, b"12345678"))
    assert [kind for kind, _, _, _ in answers] == [PING]


def test_a_frame_of_an_unknown_type_above_the_limit():
    client = RawClient(settings=LocalSettings(frame_bytes_max=1 << 16))
    assert client.ask(frame(0x55, 0, 0, bytes(1 << 16))) == []
    answers = client.ask(frame(0x55, 0, 0, bytes((1 << 16) + 1)))
    assert goaway_code(answers) is ErrorCode.FRAME_SIZE_ERROR


def test_data_of_an_idle_stream(client):
    assert goaway_code(client.ask(client.data(5, b"x"))) is ErrorCode.PROTOCOL_ERROR


def test_data_after_the_end_costs_the_stream(client):
    answers = client.ask(client.data(1, b"x", end=True) + client.data(1, b"y"))
    assert reset_codes(answers) == {1: ErrorCode.STREAM_CLOSED}
    assert not client.end.closed


def test_data_after_the_peers_own_reset_costs_only_the_stream(client):
    answers = client.ask(
        frame(RST_STREAM, 0, 1, UINT32.pack(8)) + client.data(1, bytes(100)) + client.headers(3)
    )
    assert reset_codes(answers) == {1: ErrorCode.STREAM_CLOSED}
    assert 3 in client.end.heard


def test_data_above_the_streams_window_costs_the_stream():
    client = RawClient(settings=LocalSettings(stream_window=65_535))
    answers = client.ask(client.headers(1) + client.data(1, bytes(65_536)))
    assert reset_codes(answers) == {1: ErrorCode.FLOW_CONTROL_ERROR}


def test_data_above_the_connections_window_costs_the_connection():
    client = RawClient(settings=LocalSettings(stream_window=70_000, connection_window=70_000))
    data = client.headers(1) + client.headers(3) + client.data(1, bytes(60_000))
    client.end.feed(data)
    client.end.streams[1].hold(60_000)
    # What was given back must not be taken as given before it was sent.
    left = client.end.connection._table.receive_window.left
    assert goaway_code(client.ask(client.data(3, bytes(left + 1)))) is ErrorCode.FLOW_CONTROL_ERROR


def test_windows_are_given_back_in_few_large_steps():
    client = RawClient(settings=LocalSettings(stream_window=100_000, connection_window=400_000))
    answers = client.ask(
        client.headers(1) + b"".join(client.data(1, bytes(10_000)) for _ in range(50))
    )
    given = [(number, UINT32.unpack(payload)[0]) for kind, _, number, payload in answers]
    assert {kind for kind, _, _, _ in answers} == {WINDOW_UPDATE}
    assert [nbytes for number, nbytes in given if number == 1] == [50_000] * 10
    assert [nbytes for number, nbytes in given if number == 0] == [200_000] * 2


def test_payload_that_is_held_stops_the_peer_and_is_given_back_on_release():
    class Holds(Heard):
        def take(self, buffer, start, end):
            super().take(buffer, start, end)
            client.end.streams[1].hold(end - start)

    client = RawClient(settings=LocalSettings(stream_window=100_000), make_heard=Holds)
    answers = client.ask(
        client.headers(1) + b"".join(client.data(1, bytes(10_000)) for _ in range(10))
    )
    assert answers == []
    assert client.end.connection.held_bytes == 100_000
    client.end.streams[1].release(100_000)
    assert frames_count(client) == 1
    assert client.end.connection.held_bytes == 0


def frames_count(client):
    return len(list(frames_of(client.end.sent())))


def test_content_length_is_compared():
    client = RawClient()
    fields = [*REQUEST, ("content-length", "3")]
    answers = client.ask(client.headers(1, fields) + client.data(1, b"ab", end=True))
    assert reset_codes(answers) == {1: ErrorCode.PROTOCOL_ERROR}
    answers = client.ask(client.headers(3, fields) + client.data(3, b"abcd", end=True))
    assert reset_codes(answers) == {3: ErrorCode.PROTOCOL_ERROR}
    client.ask(client.headers(5, fields) + client.data(5, b"ab") + client.data(5, b"c", end=True))
    assert client.end.heard[5].events == [("remote end", 3)]


def test_a_flood_of_empty_data_is_calmed():
    client = RawClient(limits=AbuseLimits(control_burst=10, control_per_s=0.0))
    answers = client.ask(client.headers(1) + client.data(1, b"") * 20)
    assert goaway_code(answers) is ErrorCode.ENHANCE_YOUR_CALM


def test_messages_between_do_not_pay_for_a_flood():
    client = RawClient(limits=AbuseLimits(control_burst=10, control_per_s=0.0))
    answers = client.ask(client.headers(1) + (client.data(1, b"") + client.data(1, bytes(9))) * 20)
    assert goaway_code(answers) is ErrorCode.ENHANCE_YOUR_CALM
