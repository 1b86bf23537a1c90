"""One connection of a real server, fed a client's frames that are broken in many ways."""

from __future__ import annotations

import asyncio
import random

from highwater.http2.abuse import AbuseLimits
from highwater.http2.output import OUTGOING_BYTES
from highwater.http2.settings import LocalSettings
from highwater.rpc.addresses import TcpAddress
from highwater.rpc.messages import UNSENT_BYTES_MAX, UNSENT_MESSAGES_MAX
from highwater.rpc.server import RpcServer
from highwater.rpc.server_connection import ServerConnection
from tests.robustness.hop.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    ID_MAX,
    PING,
    PREFACE,
    SETTINGS,
    Fed,
    Frame,
    literal,
    message,
    settings,
    window_update,
)
from tests.robustness.hop.mutations import damaged, mutate
from tests.robustness.hop.socketless import Wire, encoded
from tests.robustness.hop.traffic import HONEST, ClientTraffic, merged, request_fields
from tests.robustness.hop.written import Heard, Written
from tests.support.rpc_demo import Demo

MESSAGE_BYTES_MAX = 100_000
_LOOK = b"are you?"
_WINDOW = 200_000
_SMALL = LocalSettings(stream_window=65_535, connection_window=100_000, frame_bytes_max=65_536)
_FEW = LocalSettings(
    stream_window=65_535,
    connection_window=200_000,
    frame_bytes_max=16_384,
    header_list_bytes_max=8_192,
    streams_max=4,
)


class ServerSide:
    """Servers of one test; each connection is a sequence of its own."""

    def __init__(self) -> None:
        self.frames = 0
        self.outcomes: dict[str, int] = {}
        """What became of connections, and how often."""
        self._servers = [
            (settings, *_server(settings, limits))
            for settings, limits in (
                (LocalSettings(), AbuseLimits()),
                (_SMALL, AbuseLimits()),
                (_FEW, AbuseLimits(control_burst=100, reset_burst=20)),
            )
        ]

    async def run(self, seed: str) -> None:
        """One connection from its beginning to its end. Raises AssertionError."""
        chance = random.Random(seed)
        local, server, demo = chance.choice(self._servers)
        sequence = _Sequence(chance, local, server, demo)
        try:
            outcome = await sequence.run()
        except AssertionError as error:
            error.add_note(f"mutations: {sequence.ways}, seed of the connection: {seed}")
            raise
        self.frames += len(sequence.wire.fed.frames)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    async def close(self) -> None:
        for _, server, _ in self._servers:
            await server.stop(drain_s=0)


def _server(local: LocalSettings, limits: AbuseLimits) -> tuple[RpcServer, Demo]:
    demo = Demo()
    server = RpcServer(
        TcpAddress("127.0.0.1", 0),
        message_bytes_max=MESSAGE_BYTES_MAX,
        settings=local,
        limits=limits,
        on_failure=lambda name, error: demo.failures.append((name, error)),
    )
    demo.add_to(server.methods)
    return server, demo


class _Sequence:
    """What is fed to one connection, and what must come of it."""

    def __init__(
        self, chance: random.Random, local: LocalSettings, server: RpcServer, demo: Demo
    ) -> None:
        self._chance = chance
        self._local = local
        self._server = server
        self._demo = demo
        self.ways: list[str] = []
        self._drains = False
        self._connection = ServerConnection(server, asyncio.get_running_loop())
        fed = Fed(preface=True)
        written = Written(
            fed,
            client=False,
            stream_window=local.stream_window,
            connection_window=local.connection_window,
        )
        self.wire = Wire(self._connection.transport, fed, written)
        self._asked = [bytes([chance.randrange(256)]) * chance.randrange(2_000) for _ in range(3)]
        head = Frame(HEADERS, END_HEADERS, HONEST, literal(request_fields("/demo.Demo/Echo")))
        self._honest = [head, *(Frame(DATA, 0, HONEST, message(one)) for one in self._asked)]
        self._honest[-1] = self._honest[-1].with_(flags=END_STREAM)

    async def run(self) -> str:
        wire, chance = self.wire, self._chance
        frames = encoded(ClientTraffic(chance).frames())
        roll = chance.random()
        if roll < 0.1:
            # The answer to the PING of a drain: from there on streams are refused.
            frames.insert(chance.randint(0, len(frames)), Frame(PING, ACK, 0, b"draining"))
        self.ways = mutate(frames, chance)
        frames = merged([frames, self._honest[1:]], chance)
        first = settings() if chance.random() < 0.5 else settings((4, 70_000))
        body = b"".join(frame.packed() for frame in frames)
        head = PREFACE + first.packed() + Frame(SETTINGS, ACK).packed() + self._honest[0].packed()
        if chance.random() < 0.02:
            head = damaged(head, chance)
        data = head + damaged(body, chance)
        cut = chance.randrange(len(data)) if roll < 0.2 else len(data)
        await wire.feed_in_pieces(data[:cut], chance, self._look)
        if roll < 0.1 and wire.alive():
            self._drains = True
            self._connection.drain()
            await wire.feed_in_pieces(data[cut:], chance, self._look)
        outcome = "cut off" if 0.1 <= roll < 0.2 else await self._after()
        await self._end()
        return outcome

    def _look(self) -> None:
        """Limits that hold at any moment."""
        http2 = self._connection.http2
        assert http2.streams <= self._local.streams_max
        assert 0 <= http2.held_bytes <= self._local.connection_window
        assert self._server.calls <= http2.streams
        assert self._connection._assembly._left >= 0
        kept_bytes = 0
        for stream in http2._table.open.values():
            assert stream.unsent_bytes <= UNSENT_BYTES_MAX + MESSAGE_BYTES_MAX
            assert len(stream.pending) <= UNSENT_MESSAGES_MAX + 2
            kept_bytes += stream.unsent_bytes + len(stream.pending) * OUTGOING_BYTES
        assert http2.output.kept_bytes == kept_bytes
        self._no_bugs()

    def _no_bugs(self) -> None:
        """No handler of the demo service fails by itself."""
        for name, error in self._demo.failures:
            raise AssertionError(f"{name} has failed") from error

    # ---- while the connection lives ----

    async def _after(self) -> str:
        wire = self.wire
        wire.pause(paused=False)
        await wire.turns()
        if b"draining" in wire.fed.acks:
            self._drains = True
        self._repair()
        await wire.turns()
        if not wire.alive():
            wire.why_it_closed(drains=self._drains)
            return "drained" if not wire.written.goaways[-1][1] else "goaway"
        wire.feed(Frame(PING, 0, 0, _LOOK).packed())
        await wire.turns(lambda: not wire.alive() or _LOOK in wire.written.acked)
        if not wire.alive():
            wire.why_it_closed(drains=self._drains)
            return "goaway late"
        self._honest_is_answered()
        if self._drains:
            return "draining"
        return await self._good_call()

    def _repair(self) -> None:
        """Completes what was cut off, and opens the windows, as far as that is no violation."""
        wire, fed = self.wire, self.wire.fed
        for call in self._demo.calls:
            call.resume_reading()
        if fed.preface:
            return
        if fed.missing or fed.header_bytes:
            missing = fed.missing or 9 - fed.header_bytes
            wire.feed(bytes(missing))
            if fed.missing:
                wire.feed(bytes(fed.missing))
        if fed.block_of and wire.alive():
            wire.feed(Frame(CONTINUATION, END_HEADERS, fed.block_of).packed())
        pairs = [(5, 16_384), (1, 4_096)]
        if fed.initial < _WINDOW:
            pairs.append((4, _WINDOW))
        wire.feed(settings(*pairs).packed())
        if fed.window - wire.written.data < _WINDOW:
            wire.feed(window_update(0, _WINDOW).packed())

    def _honest_is_answered(self) -> None:
        fed = [frame for frame in self.wire.fed.frames if frame.stream == HONEST]
        if fed != self._honest:
            return  # A mutation has reached it, or damage in front of it.
        heard = self.wire.written.streams.get(HONEST, Heard())
        assert heard.messages() == [b"<" + one + b">" for one in self._asked]
        assert heard.ended and heard.status() == "0" and not heard.resets

    async def _good_call(self) -> str:
        wire, http2 = self.wire, self._connection.http2
        number = wire.fed.highest + 2 | 1
        if number > ID_MAX:
            return "no streams left"
        if http2.streams >= self._local.streams_max:
            self._cancel_all()
        full = http2.streams >= self._local.streams_max
        fields = literal(request_fields("/demo.Demo/Reverse"))
        wire.feed(Frame(HEADERS, END_HEADERS, number, fields).packed())
        wire.feed(Frame(DATA, END_STREAM, number, message(b"abc")).packed())
        await wire.turns(lambda: not wire.alive() or number in wire.written.streams)
        if not wire.alive():
            # Only for what it has had too much of by now.
            assert wire.written.goaways[-1][1] == 0xB
            return "goaway at the good call"
        await wire.turns(
            lambda: wire.written.streams[number].ended or bool(wire.written.streams[number].resets)
        )
        heard = wire.written.streams[number]
        if full and heard.resets == [7]:
            return "full"
        assert heard.messages() == [b"cba"] and heard.status() == "0" and not heard.resets
        return "served on"

    def _cancel_all(self) -> None:
        for call in self._demo.calls:
            call.cancel()

    # ---- the end ----

    async def _end(self) -> None:
        wire, server, demo = self.wire, self._server, self._demo
        wire.lost()
        await wire.turns(lambda: len(asyncio.all_tasks()) == 1)
        assert server.calls == 0
        assert self._connection.http2.held_bytes == 0
        assert server.statistics().connections == 0
        assert self._connection._assembly._left == 2 * MESSAGE_BYTES_MAX
        self._no_bugs()
        demo.calls.clear()
        demo.ends.clear()
