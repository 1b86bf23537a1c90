"""`python -m tests.bench.noise KIND HOST:PORT`: a tenant that does one thing as often as it can, until SIGTERM.

It then prints how often it was done, and how often it was refused, as a line of JSON. A process of its
own, so that its work is not the measured client's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.wire import request_frame

CONNECTIONS: Final = 50
REFUSED_PAUSE_S: Final = 0.01
"""After a refused connection, so that the program does not only measure itself."""
REPLY_BYTES_MAX: Final = 64 << 20
_LENGTH: Final = struct.Struct(">i")
_METADATA: Final = 9
_HANDSHAKE: Final = 1
_AUTHENTICATE: Final = 2


@dataclass(slots=True)
class Counts:
    """What a flood has done so far."""

    done: int = 0
    refused: int = 0


async def connect(host: str, port: int, counts: Counts) -> None:
    """Connects, and leaves."""
    _, writer = await asyncio.open_connection(host, port)
    counts.done += 1
    writer.close()
    await writer.wait_closed()


async def log_in_wrongly(host: str, port: int, counts: Counts) -> None:
    """Logs in by PLAIN with a password that is wrong."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await _ask(
            reader, writer, request_frame(SaslHandshakeRequest(mechanism="PLAIN"), _HANDSHAKE, 1)
        )
        login = SaslAuthenticateRequest(auth_bytes=b"\0nobody\0wrong")
        await _ask(reader, writer, request_frame(login, _AUTHENTICATE, 2))
        counts.done += 1
    finally:
        writer.close()


async def ask_for_all_topics(host: str, port: int, counts: Counts) -> None:
    """Asks for the metadata of all topics, again and again on one connection."""
    reader, writer = await asyncio.open_connection(host, port)
    asked = request_frame(MetadataRequest(topics=None), _METADATA, 1)
    try:
        while True:
            await _ask(reader, writer, asked)
            counts.done += 1
    finally:
        writer.close()


FLOODS: Final[Mapping[str, Callable[[str, int, Counts], Awaitable[None]]]] = {
    "connections": connect,
    "logins": log_in_wrongly,
    "metadata": ask_for_all_topics,
}


async def flood(kind: str, host: str, port: int, *, clients: int, over: asyncio.Event) -> Counts:
    """So many clients at once, until `over`."""
    counts = Counts()
    act = FLOODS[kind]

    async def client() -> None:
        while True:
            try:
                await act(host, port, counts)
            except (OSError, EOFError):
                counts.refused += 1
                await asyncio.sleep(REFUSED_PAUSE_S)

    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    await over.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return counts


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> None:
    """Raises EOFError or OSError if the connection ends."""
    writer.write(asked)
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if not 0 <= length <= REPLY_BYTES_MAX:
        raise EOFError(f"a reply of {length} bytes")
    await reader.readexactly(length)


async def _run(options: argparse.Namespace) -> Counts:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    host, _, port = options.address.rpartition(":")
    return await flood(options.kind, host, int(port), clients=options.connections, over=over)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.noise", description=__doc__)
    parser.add_argument("kind", choices=sorted(FLOODS))
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    counts = asyncio.run(_run(parser.parse_args()))
    sys.stdout.write(json.dumps({"done": counts.done, "refused": counts.refused}) + "\n")


if __name__ == "__main__":
    main()
