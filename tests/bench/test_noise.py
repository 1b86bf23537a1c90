"""The neighbours that flood a node do what they are for, and go on when they are refused."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.bench.noise import FLOODS, Counts, flood


class Server:
    """Counts requests by API key, and answers each with a few bytes."""

    def __init__(self, *, closes: bool = False) -> None:
        self.keys: Counter[int] = Counter()
        self.connections = 0
        self._closes = closes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not self._closes:
                length = int.from_bytes(await reader.readexactly(4), "big")
                self.keys[int.from_bytes((await reader.readexactly(length))[:2], "big")] += 1
                writer.write((6).to_bytes(4, "big") + bytes(6))
        except (EOFError, OSError):
            pass
        finally:
            writer.close()


async def run(kind: str, server: Server, *, until: int) -> Counts:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    over = asyncio.Event()
    port = listening.sockets[0].getsockname()[1]
    flooding = asyncio.create_task(flood(kind, "127.0.0.1", port, clients=3, over=over))
    async with asyncio.timeout(30):
        while server.connections + server.keys.total() < until:
            await asyncio.sleep(0.01)
        over.set()
        counts = await flooding
    listening.close()
    return counts


@pytest.mark.parametrize(
    ("kind", "keys"), [("connections", ()), ("logins", (17, 36)), ("metadata", (3,))]
)
async def test_each_does_its_own_thing_again_and_again(kind: str, keys: tuple[int, ...]) -> None:
    server = Server()
    counts = await run(kind, server, until=60)
    assert counts.done > 3
    assert set(server.keys) == set(keys)
    assert (server.connections == 3) == (kind == "metadata")


async def test_whoever_is_refused_tries_again() -> None:
    counts = await run("logins", Server(closes=True), until=20)
    assert counts.done == 0
    assert counts.refused >= 10


def test_every_kind_has_a_row() -> None:
    assert set(FLOODS) == {"connections", "logins", "metadata"}
