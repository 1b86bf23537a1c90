"""However the bytes of a conversation are cut into reads, the same is heard at both ends."""

from __future__ import annotations

from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    RST_STREAM,
    UINT32,
    frame,
    settings_frame,
    window_update_frame,
)
from highwater.http2.settings import LocalSettings
from tests.support.http2_wire import REQUEST, RESPONSE, End, Heard, carry

SMALL = LocalSettings(stream_window=65_535, connection_window=65_535)
SIZES = st.sampled_from([0, 1, 5, 100, 8_192, 33_000, 150_000])


class Numbered:
    """Cuts reads by a list of sizes, over and over."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.at = 0

    def __call__(self, left: int) -> int:
        self.at += 1
        return self.sizes[self.at % len(self.sizes)]


CUTS = st.lists(
    st.one_of(st.integers(1, 12), st.integers(1, 3_000), st.just(1 << 20)), max_size=6
).map(lambda sizes: Numbered([*sizes, 20_000]))  # One of them larger, or a run takes seconds.


def in_place() -> Heard:
    heard = Heard()
    heard.in_place = 50_000
    return heard


# ---- frames as a client may send them, right or wrong ----


def _headers(number: int, how: int) -> bytes:
    encoder = Encoder()  # Each with an empty table: no frame depends on another.
    encoder.header_table_size = 0
    block = encoder.encode(REQUEST)
    if how == 0:
        return frame(HEADERS, END_HEADERS, number, block)
    if how == 1:
        return frame(HEADERS, END_HEADERS | END_STREAM, number, block)
    return frame(HEADERS, 0, number, block[:7]) + frame(
        CONTINUATION, END_HEADERS, number, block[7:]
    )


FRAMES = st.one_of(
    st.builds(_headers, st.sampled_from([1, 3, 5, 7, 9]), st.integers(0, 2)),
    st.builds(
        lambda number, flags, size: frame(DATA, flags, number, bytes(size)),
        st.sampled_from([1, 3, 5]),
        st.sampled_from([0, 0, 0, END_STREAM, PADDED]),
        st.sampled_from([0, 1, 9, 100, 20_000, 66_000]),
    ),
    st.builds(lambda number: frame(RST_STREAM, 0, number, UINT32.pack(8)), st.sampled_from([1, 3])),
    st.builds(lambda: frame(PING, 0, 0, b"12345678")),
    st.builds(window_update_frame, st.sampled_from([0, 1, 3]), st.integers(0, 100_000)),
    st.builds(
        lambda kind, body: frame(kind, 0xFF, 1, body), st.integers(0, 12), st.binary(max_size=20)
    ),
)


def outcome_of(data: bytes, cut) -> object:
    end = End(client=False, settings=SMALL, make_heard=in_place)
    end.feed(data, cut)
    return end.events, {n: (h.events, h.payload) for n, h in end.heard.items()}, end.sent()


@settings(max_examples=150)
@given(frames=st.lists(FRAMES, max_size=12), cut=CUTS)
def test_any_cut_gives_the_same_events_and_the_same_answers(frames, cut):
    data = PREFACE + settings_frame([]) + b"".join(frames)
    events, heard, sent = outcome_of(data, cut)
    whole_events, whole_heard, whole_sent = outcome_of(data, lambda left: left)
    assert events == whole_events
    assert heard == whole_heard
    assert sent == whole_sent


# ---- two ends ----


@settings(max_examples=50)
@given(
    windows=st.tuples(st.sampled_from([65_535, 100_000, 1 << 20]), st.sampled_from([1, 2, 4])),
    payloads=st.lists(st.lists(SIZES, max_size=5), min_size=1, max_size=3),
    cut=CUTS,
)
def test_all_payload_arrives_in_order_through_any_windows_and_cuts(windows, payloads, cut):
    size, times = windows
    limits = LocalSettings(stream_window=size, connection_window=size * times)
    client = End(client=True, settings=limits, make_heard=in_place)
    server = End(client=False, settings=limits, make_heard=in_place)
    carry(client, server, cut)
    for number, sizes in enumerate(payloads):
        stream, _ = client.open()
        for position, nbytes in enumerate(sizes):
            part = bytes([number, position]) * nbytes
            stream.send(b"", [part[:3], part[3:]], len(part))
        stream.end()
    carry(client, server, cut)
    for number, stream in list(server.streams.items()):
        sent = b"".join(
            bytes([(number - 1) // 2, position]) * nbytes
            for position, nbytes in enumerate(payloads[(number - 1) // 2])
        )
        assert server.heard[number].payload == sent
        stream.send_headers(RESPONSE)
        stream.send(sent[:10], [sent[10:]], len(sent))
        stream.end([("grpc-status", "0")])
    carry(client, server, cut)
    for number, heard in client.heard.items():
        assert heard.payload == server.heard[number].payload
        assert heard.events[-1] == ("remote end", len(heard.payload))
    assert client.connection.streams == server.connection.streams == 0
    for end in (client, server):
        window = end.connection._table.receive_window
        assert window.held == 0
        assert 0 < window.left <= window.size
