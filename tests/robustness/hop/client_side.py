"""One connection of a client, fed a server's frames that are broken in many ways."""

from __future__ import annotations

import asyncio
import random

from highwater.http2.abuse import AbuseLimits
from highwater.http2.headers import Fields
from highwater.http2.output import OUTGOING_BYTES
from highwater.http2.settings import LocalSettings
from highwater.rpc.client_call import ClientCall
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.messages import UNSENT_BYTES_MAX, UNSENT_MESSAGES_MAX
from highwater.rpc.ports import Message
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.transport import Keepalive
from tests.robustness.hop.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    SETTINGS,
    Fed,
    Frame,
    literal,
    message,
    settings,
    window_update,
)
from tests.robustness.hop.mutations import damaged, mutate
from tests.robustness.hop.server_side import MESSAGE_BYTES_MAX
from tests.robustness.hop.socketless import Wire, encoded
from tests.robustness.hop.traffic import HONEST, RESPONSE, TRAILERS, ServerTraffic, merged
from tests.robustness.hop.written import Written

_LOOK = b"are you?"
_WINDOW = 200_000
_CHOICES = (
    (LocalSettings(), AbuseLimits()),
    (
        LocalSettings(stream_window=65_535, connection_window=100_000, frame_bytes_max=65_536),
        AbuseLimits(control_burst=100, reset_burst=20),
    ),
)


class _Host:
    """What calls need of their channel."""

    message_bytes_max = MESSAGE_BYTES_MAX

    def __init__(self) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.running = 0

    def on_failure(self, name: str, error: BaseException) -> None:
        self.failures.append((name, error))

    def request_fields(self, path: str) -> Fields:
        pseudo = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "fuzz"}
        return list(pseudo.items())

    def call_ended(self, call: ClientCall) -> None:
        self.running -= 1


class _Call:
    """A call and all that it heard."""

    def __init__(self, host: _Host, content: bytes, *, half_close: bool, pause: bool) -> None:
        self.messages: list[bytes] = []
        self.ends: list[Status] = []
        host.running += 1
        self.call = ClientCall(
            host,
            "/demo.Demo/Echo",
            loop=asyncio.get_running_loop(),
            on_message=self._on_message,
            on_end=self.ends.append,
        )
        self.call.send(content)
        if half_close:
            self.call.half_close()
        if pause:
            self.call.pause_reading()

    def _on_message(self, message: Message) -> None:
        assert not self.ends, "a message after the end"
        self.messages.append(bytes(message))


class ClientSide:
    """Each connection is a sequence of its own."""

    def __init__(self) -> None:
        self.frames = 0
        self.outcomes: dict[str, int] = {}

    async def run(self, seed: str) -> None:
        """One connection from its beginning to its end. Raises AssertionError."""
        sequence = _Sequence(random.Random(seed))
        try:
            outcome = await sequence.run()
        except AssertionError as error:
            error.add_note(f"mutations: {sequence.ways}, seed of the connection: {seed}")
            raise
        self.frames += len(sequence.wire.fed.frames)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    async def close(self) -> None:
        """Nothing outlives a sequence."""


class _Sequence:
    """What is fed to one connection, and what must come of it."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._local, limits = chance.choice(_CHOICES)
        self._host = _Host()
        self.ways: list[str] = []
        self._losses: list[str] = []
        self._connection = ClientConnection(
            loop=asyncio.get_running_loop(),
            settings=self._local,
            limits=limits,
            keepalive=Keepalive(),
            assembly_bytes_max=2 * MESSAGE_BYTES_MAX,
            on_failure=self._host.on_failure,
            room=self._room,
            drained=lambda _connection: None,
            lost=lambda _connection, words: self._losses.append(words),
        )
        fed = Fed(preface=False)
        written = Written(
            fed,
            client=True,
            stream_window=self._local.stream_window,
            connection_window=self._local.connection_window,
        )
        self.wire = Wire(self._connection.transport, fed, written)
        self._calls: list[_Call] = []
        self._to_begin = 0
        self._asked = [bytes([chance.randrange(256)]) * chance.randrange(2_000) for _ in range(3)]
        self._honest = [
            Frame(HEADERS, END_HEADERS, HONEST, literal(RESPONSE)),
            *(Frame(DATA, 0, HONEST, message(one)) for one in self._asked),
            Frame(HEADERS, END_HEADERS | END_STREAM, HONEST, literal(TRAILERS)),
        ]

    def _begin(self, content: bytes) -> _Call:
        chance, first = self._chance, not self._calls
        made = _Call(
            self._host,
            content,
            half_close=first or chance.random() < 0.8,
            pause=not first and chance.random() < 0.15,
        )
        self._calls.append(made)
        self._connection.begin(made.call)
        return made

    def _room(self) -> None:
        """A few calls begin only when others end: in the middle of what the connection does."""
        if self._to_begin and self._connection.takes_calls:
            self._to_begin -= 1
            self._begin(b"later")

    async def run(self) -> str:
        wire, chance = self.wire, self._chance
        first = settings() if chance.random() < 0.5 else settings((4, 70_000), (3, 100))
        wire.feed(first.packed() + Frame(SETTINGS, ACK).packed())
        for _ in range(chance.randint(2, 7)):
            self._begin(bytes(chance.choice((0, 10, 3_000, 60_000, 90_000))))
        self._to_begin = chance.choice((0, 0, 2))
        await wire.turns()
        streams = [1 + 2 * index for index in range(1, len(self._calls) + self._to_begin)]
        frames = encoded(ServerTraffic(chance).frames(streams))
        self.ways = mutate(frames, chance)
        frames = merged([frames, self._honest], chance)
        data = damaged(b"".join(frame.packed() for frame in frames), chance)
        if chance.random() < 0.1:
            await wire.feed_in_pieces(data[: chance.randrange(len(data))], chance, self._look)
            outcome = "cut off"
        else:
            await wire.feed_in_pieces(data, chance, self._look)
            outcome = await self._after()
        await self._end()
        return outcome

    def _look(self) -> None:
        """Limits that hold at any moment."""
        http2 = self._connection.http2
        assert http2.streams <= len(self._calls)
        assert 0 <= http2.held_bytes <= self._local.connection_window
        assert self._connection._assembly._left >= 0
        kept_bytes = 0
        for stream in http2._table.open.values():
            assert stream.unsent_bytes <= UNSENT_BYTES_MAX + MESSAGE_BYTES_MAX
            assert len(stream.pending) <= UNSENT_MESSAGES_MAX + 2
            kept_bytes += stream.unsent_bytes + len(stream.pending) * OUTGOING_BYTES
        assert http2.output.kept_bytes == kept_bytes
        self._no_bugs()

    def _no_bugs(self) -> None:
        for name, error in self._host.failures:
            raise AssertionError(f"{name} has failed") from error

    # ---- while the connection lives ----

    async def _after(self) -> str:
        wire = self.wire
        wire.pause(paused=False)
        await wire.turns()
        self._to_begin = 0
        self._repair()
        await wire.turns()
        drains = self._connection.draining
        if not wire.alive():
            # It closes by itself when a peer that takes no more calls has answered all.
            assert not wire.socket.aborted, wire.transport._why
            if wire.transport._why == "drained":
                return "drained"
            wire.why_it_closed(drains=False)
            return "goaway"
        wire.feed(Frame(PING, 0, 0, _LOOK).packed())
        await wire.turns(lambda: not wire.alive() or _LOOK in wire.written.acked)
        if not wire.alive():
            wire.why_it_closed(drains=drains)
            return "goaway late"
        self._honest_is_answered()
        if drains:
            return "draining"
        return await self._good_call()

    def _repair(self) -> None:
        """Completes what was cut off, and opens the windows, as far as that is no violation."""
        wire, fed = self.wire, self.wire.fed
        for one in self._calls:
            one.call.resume_reading()
        if fed.missing or fed.header_bytes:
            wire.feed(bytes(fed.missing or 9 - fed.header_bytes))
            wire.feed(bytes(fed.missing))
        if fed.block_of and wire.alive():
            wire.feed(Frame(CONTINUATION, END_HEADERS, fed.block_of).packed())
        pairs = [(5, 16_384), (3, 1_000)]
        if fed.initial < _WINDOW:
            pairs.append((4, _WINDOW))
        wire.feed(settings(*pairs).packed())
        if fed.window - wire.written.data < _WINDOW:
            wire.feed(window_update(0, _WINDOW).packed())

    def _honest_is_answered(self) -> None:
        fed = [frame for frame in self.wire.fed.frames if frame.stream == HONEST]
        if fed != self._honest:
            return  # A mutation has reached it, or damage in front of it.
        honest = self._calls[0]
        assert honest.messages == self._asked
        assert [end.code for end in honest.ends] == [StatusCode.OK]

    async def _good_call(self) -> str:
        wire = self.wire
        assert self._connection.takes_calls
        made = self._begin(b"abc")
        await wire.turns()
        number = wire.written.highest
        made.call.resume_reading()
        for frame in (
            Frame(HEADERS, END_HEADERS, number, literal(RESPONSE)),
            Frame(DATA, 0, number, message(b"cba")),
            Frame(HEADERS, END_HEADERS | END_STREAM, number, literal(TRAILERS)),
        ):
            wire.feed(frame.packed())
        if not wire.alive():
            # Only for what it has had too much of by now.
            assert wire.written.goaways[-1][1] == 0xB
            return "goaway at the good call"
        assert made.messages == [b"cba"]
        assert [end.code for end in made.ends] == [StatusCode.OK]
        return "served on"

    # ---- the end ----

    async def _end(self) -> None:
        self._to_begin = 0
        self.wire.lost()
        await self.wire.turns()
        for one in self._calls:
            one.call.resume_reading()
        assert [len(one.ends) for one in self._calls] == [1] * len(self._calls)
        assert self._host.running == 0
        assert self._connection.http2.held_bytes == 0
        assert len(self._losses) == 1
        assert self._connection._assembly._left == 2 * MESSAGE_BYTES_MAX
        self._no_bugs()
