"""One connection of a client, fed a server's frames that are broken in many ways."""

from __future__ import annotations

import asyncio
import random

from highwater.http2.abuse import AbuseLimits
from highwater.http2.headers import Fields
from highwater.http2.settings import LocalSettings
from highwater.rpc.client_call import ClientCall
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.ports import Message
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.transport import Keepalive
from tests.robustness.hop.examined import ASSEMBLY_BYTES_MAX, MESSAGE_BYTES_MAX, Examined
from tests.robustness.hop.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    SETTINGS,
    Fed,
    Frame,
    literal,
    message,
    settings,
)
from tests.robustness.hop.mutations import damaged, mutate
from tests.robustness.hop.socketless import Wire, encoded
from tests.robustness.hop.traffic import HONEST, RESPONSE, TRAILERS, ServerTraffic, merged
from tests.robustness.hop.written import Written

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
            assembly_bytes_max=ASSEMBLY_BYTES_MAX,
            memory=PeerMemory(),
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
        self._examined = Examined(self._connection, self.wire, self._local, self._host.failures)
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
        assert self._connection.http2.streams <= len(self._calls)
        self._examined.look()

    # ---- while the connection lives ----

    async def _after(self) -> str:
        wire = self.wire
        await self._examined.settle(self._repair)
        drains = self._connection.draining
        if not wire.alive():
            # It closes by itself when a peer that takes no more calls has answered all.
            assert not wire.socket.aborted, wire.transport._why
            if wire.transport._why == "drained":
                return "drained"
            wire.why_it_closed(drains=False)
            return "goaway"
        return await self._examined.goes_on(
            drains=drains,
            honest_is_answered=self._honest_is_answered,
            good_call=self._good_call,
        )

    def _repair(self) -> None:
        self._to_begin = 0
        for one in self._calls:
            one.call.resume_reading()
        self._examined.repair((3, 1_000))

    def _honest_is_answered(self) -> None:
        if not self._examined.was_fed(self._honest):
            return
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
        assert len(self._losses) == 1
        self._examined.nothing_is_left()
