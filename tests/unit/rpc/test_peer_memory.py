"""The bound over all connections: who is closed, when somebody looks, and what real peers can hold."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hpack import Encoder

from highwater.http2.frames import (
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PREFACE,
    settings_frame,
)
from highwater.http2.frames import frame as frame_of
from highwater.http2.settings import INITIAL_WINDOW_SIZE
from highwater.rpc import peer_memory
from highwater.rpc.channel import Channel
from highwater.rpc.messages import PREFIX
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.ports import ServerCallbacks
from tests.support.http2_wire import REQUEST, frames_of
from tests.support.rpc_demo import SERVICE, Collected, Demo, eventually, start_demo, unary


class Holder:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.why = []

    def memory(self):
        return self.nbytes

    def give_up(self, words):
        self.why.append(words)
        self.nbytes = 0


@pytest.fixture
def told():
    return []


@pytest.fixture
def memory(told):
    return PeerMemory(100, tell=told.append)


def test_the_worst_go_until_the_rest_fits(memory, told):
    holders = [Holder(nbytes) for nbytes in (10, 40, 5, 70, 30)]
    for holder in holders:
        memory.join(holder)
    assert memory.look() == 85
    assert [bool(holder.why) for holder in holders] == [False, False, False, True, False]
    [words] = told
    assert "100" in words
    assert "70" in words
    holders[0].nbytes, holders[4].nbytes = 91, 92
    assert memory.look() == 45
    assert [bool(holder.why) for holder in holders] == [True, False, False, True, True]


def test_nobody_goes_at_the_bound_and_who_has_left_does_not_count(memory, told):
    stays, leaves = Holder(100), Holder(50)
    memory.join(stays)
    memory.join(leaves)
    memory.leave(leaves)
    memory.leave(leaves)
    assert memory.look() == 100
    assert told == []


async def test_a_look_follows_what_comes_and_goes_on_while_much_is_kept(memory, monkeypatch):
    monkeypatch.setattr(peer_memory, "LOOK_S", 0.005)
    made = PeerMemory(100)
    holder = Holder(0)
    made.join(holder)
    made.look_soon()
    assert made.due
    await eventually(lambda: not made.due)
    holder.nbytes = 30
    made.look_soon()
    await asyncio.sleep(0.03)
    assert made.due, "a quarter is taken: looks go on though nothing comes"
    holder.nbytes = 101
    await eventually(lambda: holder.why)
    await eventually(lambda: not made.due)


# ---- real peers ----

BOUND = 4 << 20
PEERS = 8
SHARE = BOUND // 4
"""What each hostile peer makes the server keep: far below all limits of one connection."""


class Hostile:
    """A peer that keeps to the protocol, and to every limit of its connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.next_id = 1

    @classmethod
    async def at(cls, port, *settings):
        made = cls(*await asyncio.open_connection("127.0.0.1", port))
        made.writer.write(PREFACE + settings_frame(list(settings)))
        return made

    def call(self, method, *more):
        number, self.next_id = self.next_id, self.next_id + 2
        # An encoder for each block: it refers to nothing of the former ones.
        fields = [*REQUEST[:2], (":path", f"{SERVICE}/{method}"), *REQUEST[3:], *more]
        self.writer.write(
            frame_of(HEADERS, END_HEADERS, number, Encoder().encode(fields, huffman=False))
        )
        return number

    def data(self, number, payload):
        for at in range(0, len(payload), 16_384):
            self.writer.write(frame_of(DATA, 0, number, payload[at : at + 16_384]))

    async def gone(self):
        """What came until the server closed."""
        received = b""
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                while data := await self.reader.read(1 << 16):
                    received += data
        return received


class Holding(Demo):
    """Methods that keep what clients send, each in its own way."""

    def add_to(self, methods):
        super().add_to(methods)
        methods.add_stream(f"{SERVICE}/Paused", self._paused)
        methods.add_stream(f"{SERVICE}/Keeper", self._keeper)

    def _paused(self, call):
        call.pause_reading()
        return ServerCallbacks(on_message=lambda _message: None)

    def _keeper(self, _call):
        kept = []
        return ServerCallbacks(
            on_message=kept.append, memory=lambda: sum(len(message) for message in kept)
        )


def half_a_message(peer: Hostile) -> None:
    peer.data(peer.call("Echo"), PREFIX.pack(0, SHARE) + bytes(SHARE - 1))


def a_request_without_its_end(peer: Hostile) -> None:
    peer.data(peer.call("Reverse"), PREFIX.pack(0, SHARE) + bytes(SHARE))


def messages_for_a_paused_reader(peer: Hostile) -> None:
    peer.data(peer.call("Paused"), PREFIX.pack(0, SHARE) + bytes(SHARE))


def empty_messages_for_a_paused_reader(peer: Hostile) -> None:
    peer.data(peer.call("Paused"), PREFIX.pack(0, 0) * (SHARE // 96))


def answers_that_are_not_read(peer: Hostile) -> None:
    peer.data(peer.call("Echo"), (PREFIX.pack(0, 8_192) + bytes(8_192)) * (SHARE // 8_192))


def requests_that_a_handler_keeps(peer: Hostile) -> None:
    peer.data(peer.call("Keeper"), (PREFIX.pack(0, 60_000) + bytes(60_000)) * (SHARE // 60_000))


def calls_with_long_headers(peer: Hostile) -> None:
    for _ in range(SHARE // 15_000):
        peer.call("Silent", ("x-long", "x" * 14_000))


WAYS: list[Callable[[Hostile], None]] = [
    half_a_message,
    a_request_without_its_end,
    messages_for_a_paused_reader,
    empty_messages_for_a_paused_reader,
    answers_that_are_not_read,
    requests_that_a_handler_keeps,
    calls_with_long_headers,
]


@pytest.mark.parametrize("way", WAYS)
async def test_peers_within_their_limits_cannot_hold_more_than_the_bound_together(way):
    memory = PeerMemory(BOUND)
    server = await start_demo(Holding(), memory=memory)
    honest = Channel(server.address)
    echo = Collected(honest, "Echo")
    hostile = []
    for _ in range(PEERS):
        # Nothing of the answers is wanted: the window of each stream is closed.
        peer = await Hostile.at(server.port, (INITIAL_WINDOW_SIZE, 0))
        way(peer)
        hostile.append(peer)
        await asyncio.wait_for(peer.writer.drain(), 10)
    await eventually(lambda: server.statistics().totals.given_up >= PEERS - 4)
    await asyncio.sleep(0.3)
    assert memory.look() <= BOUND
    given_up = server.statistics().totals.given_up
    assert given_up < PEERS, "those that fit stay"
    assert server.statistics().connections == PEERS + 1 - given_up
    echo.call.send(b"hello")
    assert await echo.got(1) == [b"<hello>"], "the stream that was open has not suffered"
    assert await unary(honest, "Reverse", b"abc") == b"cba"
    await honest.close()
    for peer in hostile:
        peer.writer.close()
    await server.stop(drain_s=0)
    assert memory.look() == 0


async def test_who_is_closed_hears_why():
    server = await start_demo(Holding(), memory=PeerMemory(1 << 20))
    peer = await Hostile.at(server.port)
    peer.data(peer.call("Paused"), PREFIX.pack(0, 2 << 20) + bytes(2 << 20))
    frames = list(frames_of(await peer.gone()))
    [words] = [payload for kind, _, _, payload in frames if kind == GOAWAY]
    assert words[7] == 0xB, "ENHANCE_YOUR_CALM"
    assert b"keep more than" in words
    peer.writer.close()
    await server.stop(drain_s=0)


async def test_peers_of_all_channels_count_together():
    """A server that answers slowly holds what its clients keep for it."""
    demo = Holding()
    server = await start_demo(demo)
    memory = PeerMemory(BOUND)
    channels = [Channel(server.address, memory=memory) for _ in range(3)]
    calls = [Collected(channel, "Paused") for channel in channels]
    for one in calls:
        await one.until(lambda one=one: one.opened)
        for _ in range(9):
            one.call.send(bytes(2 << 20))
    await eventually(lambda: sum(one.status is not None for one in calls) >= 2)
    await asyncio.sleep(0.3)
    assert memory.look() <= BOUND
    for channel in channels:
        await channel.close()
    await server.stop(drain_s=0)
