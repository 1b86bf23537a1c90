"""A conversation with damaged, doubled and missing bytes costs streams or the connection, no more."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.http2.settings import LocalSettings
from tests.support.http2_wire import RESPONSE, End, Heard, carry

SMALL = LocalSettings(stream_window=65_535, connection_window=100_000)
ENDS = {"remote end", "reset", "lost"}
TERMINAL = {"reset", "lost"}


class Recorded(End):
    """Keeps what it has received."""

    received = b""

    def feed(self, data: bytes, *cut: Any) -> None:
        self.received += data
        super().feed(data, *cut)


def in_place() -> Heard:
    heard = Heard()
    heard.in_place = 1_000
    return heard


def begin(client: End) -> None:
    for size in (3, 40_000):
        stream, _ = client.open()
        stream.send(b"head", [bytes(size)], size + 4)
        stream.end()


@cache
def conversation() -> tuple[bytes, bytes]:
    """What a server and what a client hears in an ordinary one."""
    client, server = Recorded(client=True, settings=SMALL), Recorded(client=False, settings=SMALL)
    carry(client, server)
    begin(client)
    carry(client, server)
    for stream in list(server.streams.values()):
        stream.send_headers([*RESPONSE, ("key", "value")])
        stream.send(b"", [bytes(30_000)], 30_000)
        stream.end([("grpc-status", "0")])
    carry(client, server)
    return server.received, client.received


DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["change", "double", "drop"]),
        st.integers(0, 1 << 20),
        st.integers(0, 255),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, damage: list[tuple[str, int, int, int]]) -> bytes:
    made = bytearray(data)
    for how, place, value, length in damage:
        # Half of it at the beginning, where frames are short.
        at = place % (len(made) if place & 1 else min(len(made), 300))
        if how == "change":
            made[at] = value
        elif how == "double":
            made[at:at] = made[at : at + length]
        else:
            del made[at : at + length]
    return bytes(made)


@settings(max_examples=200)
@given(client=st.booleans(), damage=DAMAGE, cut=st.sampled_from([1 << 20, 1_000, 37]))
def test_damage_ends_each_stream_once_and_raises_nothing(client, damage, cut):
    end = End(client=client, settings=SMALL, make_heard=in_place)
    if client:
        # Before anything is received: the initial windows are enough for it.
        begin(end)
    end.feed(damaged(conversation()[client], damage), lambda _left: cut)
    end.sent()
    end.connection.lost("gone")
    for heard in end.heard.values():
        ends = [event[0] for event in heard.events if event[0] in ENDS]
        assert len([one for one in ends if one in TERMINAL]) <= 1
        assert ends[:1] != ["lost"] or len(ends) == 1
        assert ends
        assert heard.rooms == [] or len(heard.payload) <= 1 << 20
    assert end.connection.streams == 0
    assert end.connection.held_bytes == 0
