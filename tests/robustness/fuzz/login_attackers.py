"""Many connections at once that talk to a listener with logins, and check who is answered."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import sasl_authenticate
from tests.robustness.fuzz.generator import Offered
from tests.robustness.fuzz.login_frames import PERMITTED, LoginGenerator

_CONNECTIONS = 24
_SILENCE_S = 0.1
_CONNECT_TIMEOUT_S = 30.0
_REPLY_BYTES_MAX = 1 << 18
_FRAMES_KNOWN_MAX = 100
_FLEXIBLE = 2
"""The first version of SaslAuthenticate with tags."""
_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")


@dataclass(slots=True)
class LoginTally:
    """What came of the frames."""

    frames: int = 0
    answered: int = 0
    challenged: int = 0
    """Tokens that were answered by another one."""
    denied: int = 0
    """Tokens that were answered by SASL_AUTHENTICATION_FAILED."""
    closed: int = 0
    refused: int = 0
    unexpected: list[str] = field(default_factory=list)
    """Answers that nobody should get."""

    def __str__(self) -> str:
        return (
            f"{self.frames} frames: {self.answered} answered, {self.challenged} challenges, "
            f"{self.denied} denials, {self.closed} connections closed, {self.refused} refused"
        )


async def attack_logins(
    host: str,
    port: int,
    tokens: Sequence[str],
    offered: Offered,
    *,
    frames: int,
    seed: int,
    tls: ssl.SSLContext | None = None,
) -> LoginTally:
    """Sends `frames` frames, over connections of one conversation each."""
    tally = LoginTally()
    share = -(-frames // _CONNECTIONS)

    async def attacker(index: int) -> None:
        chance = random.Random(f"{seed}-{index}-{tls is not None}")
        generator = LoginGenerator(chance, offered, tokens)
        sent = 0
        while sent < share:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(
                        host, port, ssl=tls, server_hostname=None if tls is None else "localhost"
                    )
            except OSError:
                tally.refused += 1
                sent += 1
                continue
            visit = _Visit(reader, writer, tally)
            sent += await visit.run(generator)

    async with asyncio.TaskGroup() as tasks:
        for index in range(_CONNECTIONS):
            tasks.create_task(attacker(index))
    return tally


class _Visit:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tally: LoginTally
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._tally = tally
        self._sent = bytearray()
        """What the server has not yet enough of to make a frame."""
        self._expected: dict[int, tuple[int, int]] = {}
        """Correlation ids of what may be answered, with key and version."""
        self._got = bytearray()
        self._token = b""

    async def run(self, generator: LoginGenerator) -> int:
        """Returns the number of frames sent."""
        count = 0
        try:
            for make in generator.conversation():
                data = make(self._token)
                count += 1
                self._tally.frames += 1
                self._note(data)
                if not await self._exchange(data):
                    self._tally.closed += 1
                    break
        finally:
            self._writer.transport.abort()
        return max(count, 1)

    async def _exchange(self, data: bytes) -> bool:
        """False once the connection has ended."""
        try:
            self._writer.write(data)
            async with asyncio.timeout(_SILENCE_S):
                await self._writer.drain()
                received = await self._reader.read(_REPLY_BYTES_MAX)
        except TimeoutError:
            return True  # It waits for more, or works.
        except OSError:
            return False
        self._got += received
        for frame in _frames(self._got):
            self._check(frame)
        return bool(received)

    def _note(self, data: bytes) -> None:
        self._sent += data
        for frame in _frames(self._sent):
            if len(frame) >= _HEADER.size:
                key, version, correlation_id = _HEADER.unpack_from(frame)
                if key in PERMITTED:
                    self._expected[correlation_id] = key, version

    def _check(self, frame: bytes) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        asked = self._expected.get(correlation_id)
        if asked is None:
            self._tally.unexpected.append(frame[:40].hex())
            return
        self._tally.answered += 1
        key, version = asked
        if key != ApiKey.SASL_AUTHENTICATE:
            return
        body = _LENGTH.size + (version >= _FLEXIBLE)
        answer = sasl_authenticate.decode_response(memoryview(frame), body, version)
        if answer.error_code == ErrorCode.NONE:
            self._tally.challenged += 1
            self._token = bytes(answer.auth_bytes)
            if self._token.startswith(b"v="):
                self._tally.unexpected.append("a login")
        else:
            self._tally.denied += 1
            if answer.auth_bytes:
                self._tally.unexpected.append("a token with a denial")


def _frames(stream: bytearray) -> Iterator[bytes]:
    """Takes whole frames from the beginning of a stream."""
    for _ in range(_FRAMES_KNOWN_MAX):
        if len(stream) < _LENGTH.size:
            return
        (size,) = _LENGTH.unpack_from(stream)
        end = _LENGTH.size + size
        if size < 0 or len(stream) < end:
            return
        frame = bytes(stream[_LENGTH.size : end])
        del stream[:end]
        yield frame
