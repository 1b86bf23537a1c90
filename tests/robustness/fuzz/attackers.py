"""Hostile connections: many at once, each sending the frames of its own seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.robustness.fuzz.generator import Offered, RequestGenerator
from tests.robustness.fuzz.mutations import mutate

_CONNECTIONS = 24
_SILENCE_S = 0.06
"""A frame without reply or close by then counts as waiting: for more bytes, or in a handler."""

_CONNECT_TIMEOUT_S = 10.0
_REPLY_BYTES_MAX = 1 << 16
_BURST_CHANCE = 0.1
_BURST = 5


@dataclass(slots=True)
class Tally:
    """The outcomes of the frames."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.frames} frames: {self.answered} answered, {self.closed} closed, "
            f"{self.silent} silent, {self.refused} connections refused"
        )


async def attack(
    host: str,
    port: int,
    offered: Offered,
    *,
    frames: int,
    seed: int,
    topic_ids: Sequence[bytes] = (),
) -> Tally:
    """Sends `frames` frames over connections that are reopened as the broker closes them.

    Frame n of a seed is always the same bytes, but for topic ids, whatever the broker answers.
    """
    tally = Tally()
    share = -(-frames // _CONNECTIONS)
    async with asyncio.TaskGroup() as tasks:
        for index in range(_CONNECTIONS):
            chance = random.Random(f"{seed}-{index}")
            generator = RequestGenerator(chance, offered, topic_ids)
            tasks.create_task(_attacker(host, port, share, chance, generator, tally))
    return tally


async def _attacker(
    host: str,
    port: int,
    frames: int,
    chance: random.Random,
    generator: RequestGenerator,
    tally: Tally,
) -> None:
    writer: asyncio.StreamWriter | None = None
    reader: asyncio.StreamReader | None = None
    sent = 0
    while sent < frames:
        count = _BURST if chance.random() < _BURST_CHANCE else 1
        data = b"".join(
            mutate(generator.request(sent + index)[2], chance) for index in range(count)
        )
        sent += count
        tally.frames += count
        if reader is None or writer is None:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(host, port)
            except OSError:
                tally.refused += 1
                continue
        if not await _exchange(reader, writer, data, tally):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            reader = writer = None
    if writer is not None:
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes, tally: Tally
) -> bool:
    """Sends a frame and waits for its outcome; False if the connection cannot be used again."""
    try:
        writer.write(data)
        async with asyncio.timeout(_SILENCE_S):
            await writer.drain()
            reply = await reader.read(_REPLY_BYTES_MAX)
    except TimeoutError:
        tally.silent += 1
        return False
    except OSError:
        tally.closed += 1
        return False
    if not reply:
        tally.closed += 1
        return False
    tally.answered += 1
    return True
