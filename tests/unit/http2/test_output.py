from highwater.http2.errors import ErrorCode
from highwater.http2.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    PING,
    SETTINGS,
    settings_frame,
    window_update_frame,
)
from highwater.http2.output import HIGH_WATER_BYTES, OUTGOING_BYTES, TURN_BYTES
from highwater.http2.settings import INITIAL_WINDOW_SIZE, LocalSettings
from tests.support.http2_wire import REQUEST, End, RawServer, carry, frames_of

LARGE = LocalSettings(stream_window=64 << 20, connection_window=64 << 20)


def pair(**options):
    client, server = End(client=True), End(client=False, **options)
    carry(client, server)
    return client, server


def test_the_shell_is_woken_once_until_it_has_taken_the_frames():
    client, _ = pair()
    client.wakes = 0
    stream, _ = client.open()
    stream.send(b"", [b"a"], 1)
    stream.send(b"", [b"b"], 1)
    assert client.wakes == 1
    client.sent()
    stream.send(b"", [b"c"], 1)
    assert client.wakes == 2


def test_payload_is_passed_on_and_not_copied():
    client, _ = pair()
    stream, _ = client.open()
    client.sent()
    part = bytearray(b"payload")
    stream.send(b"head.", [part], 12)
    assert client.connection.output.frames[-1] is part
    # Longer than a frame: in pieces, still of the same memory.
    long = bytearray(3 << 20)
    stream.send(b"", [long], 3 << 20)
    pieces = [one.obj for one in client.connection.output.frames if type(one) is memoryview]
    assert len(pieces) == 2
    assert all(piece is long for piece in pieces)


def test_what_exceeds_a_window_waits_for_it():
    client, server = pair(settings=LocalSettings(stream_window=65_535, connection_window=65_535))
    stream, _ = client.open()
    stream.send(b"", [bytes(65_000), bytes(70_000)], 135_000)
    assert stream.unsent_bytes == 135_000 - 65_535
    assert client.connection.counters.stalls == 1
    stream.end()
    carry(client, server)
    assert stream.unsent_bytes == 0
    assert server.heard[1].payload == bytes(135_000)
    assert server.heard[1].events == [("remote end", 135_000)]


def test_what_all_streams_keep_is_counted_until_it_leaves_or_is_dropped():
    client, server = pair(settings=LocalSettings(stream_window=65_535, connection_window=65_535))
    output = client.connection.output
    streams = [client.open()[0] for _ in range(3)]
    streams[0].send(b"", [bytes(65_535)], 65_535)
    assert output.kept_bytes == 0
    for stream in streams:
        stream.send(b"", [bytes(70_000)], 70_000)
        stream.send(b"", [], 0)
    assert output.kept_bytes == 3 * (70_000 + 2 * OUTGOING_BYTES)
    streams[2].reset(ErrorCode.CANCEL)
    assert output.kept_bytes == 2 * (70_000 + 2 * OUTGOING_BYTES)
    streams[0].end()
    carry(client, server)
    assert output.kept_bytes == 0
    assert server.heard[3].payload == bytes(70_000)


def test_streams_take_turns():
    server = RawServer()
    client = server.end
    server.ask(settings_frame([(INITIAL_WINDOW_SIZE, 64 << 20)]) + window_update_frame(0, 64 << 20))
    for stream in [client.open()[0] for _ in range(2)]:
        stream.send(b"", [bytes(10 << 20)], 10 << 20)
    order = []
    while data := client.sent():
        order += [number for kind, _, number, _ in frames_of(data) if kind == DATA]
    assert len(order) == 2 * (10 << 20) >> 14
    # The first one had nobody to wait for, until the output was full.
    first = order.index(3)
    assert first <= (HIGH_WATER_BYTES + TURN_BYTES) >> 14
    turn = TURN_BYTES >> 14
    both = order[first : -1 - order[::-1].index(1) - turn]
    assert all(1 in both[at : at + turn + 1] for at in range(len(both) - turn))


def test_no_more_than_the_high_water_waits_for_the_socket():
    client, _ = pair(settings=LARGE)
    stream, _ = client.open()
    for _ in range(40):
        stream.send(b"", [bytes(1 << 20)], 1 << 20)
    output = client.connection.output
    assert output.nbytes <= HIGH_WATER_BYTES + (1 << 20) + 1000
    assert stream.unsent_bytes > 30 << 20


def test_control_frames_do_not_stand_behind_all_payload():
    client, _ = pair(settings=LARGE)
    stream, _ = client.open()
    stream.send(b"", [bytes(40 << 20)], 40 << 20)
    client.connection.ping(b"12345678")
    frames = list(frames_of(client.sent()))
    assert frames[-1][0] == PING


def test_on_writable_follows_can_send():
    client, server = pair(settings=LocalSettings(stream_window=65_535, connection_window=65_535))
    stream, heard = client.open()
    assert stream.can_send()
    stream.send(b"", [bytes(200_000)], 200_000)
    assert not stream.can_send()
    carry(client, server)
    assert heard.writable == 1
    assert stream.can_send()


def test_a_full_output_is_told_too():
    client, _ = pair(settings=LARGE)
    busy, _ = client.open()
    idle, heard = client.open()
    while client.connection.output.nbytes < HIGH_WATER_BYTES:
        busy.send(b"", [bytes(1 << 20)], 1 << 20)
    assert not idle.can_send()
    client.sent()
    client.sent()
    assert heard.writable == 1


def test_the_end_goes_with_the_last_payload_or_after_it():
    client, _ = pair()
    stream, _ = client.open()
    client.sent()
    stream.send(b"a", [], 1, end_stream=True)
    assert [(kind, flags) for kind, flags, *_ in frames_of(client.sent())] == [(DATA, END_STREAM)]
    other, _ = client.open()
    client.sent()
    other.send(b"a", [], 1)
    other.end()
    assert [(k, f) for k, f, *_ in frames_of(client.sent())] == [(DATA, 0), (DATA, END_STREAM)]


def test_a_large_header_section_needs_continuations():
    client = RawServer().end
    client.open([*REQUEST, *((f"key-{n}", "\x7f" * 900) for n in range(20))])
    kinds = [kind for kind, *_ in frames_of(client.sent())]
    assert kinds[0] == HEADERS
    assert len(kinds) > 1


def test_the_peers_frame_size_is_kept():
    client, server = pair()
    stream, _ = client.open()
    client.sent()
    stream.send(b"", [bytes(3 << 20)], 3 << 20)
    frames = []
    while data := client.sent():
        frames += [len(payload) for _, _, _, payload in frames_of(data)]
        server.feed(data)
        client.feed(server.sent())
    assert max(frames) <= 2 << 20
    other = End(client=True)
    other.feed(b"\0\0\0\x04\0\0\0\0\0" + window_update_frame(0, 1 << 20))
    stream, _ = other.open()
    other.sent()
    stream.send(b"", [bytes(65_535)], 65_535)
    assert [len(p) for k, _, _, p in frames_of(other.sent()) if k != SETTINGS] == [16_384] * 3 + [
        16_383
    ]
