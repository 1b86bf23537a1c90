"""A share of the hop's broken frames over real sockets, on the loop that services use."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
import uvloop

from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from tests.robustness.hop.frames import ACK, PREFACE, SETTINGS, Fed, Frame, settings
from tests.robustness.hop.mutations import damaged, mutate
from tests.robustness.hop.socketless import encoded
from tests.robustness.hop.traffic import ClientTraffic, ServerTraffic
from tests.robustness.hop.written import Written
from tests.support.rpc_demo import Demo, eventually, start_demo, unary

_SHARE = 50
"""Of so many frames one goes over a socket."""
_FULL_RUN_S = 1_200
_CALLS = 4
_CALL_S = 0.1
_SILENCE_S = 0.02
_READ_BYTES = 1 << 16
_WINDOW = 64 << 20


def _broken(frames: list[Frame], chance: random.Random) -> bytes:
    made = encoded(frames)
    mutate(made, chance)
    return damaged(b"".join(frame.packed() for frame in made), chance)


async def _attack(port: int, chance: random.Random) -> int:
    """One connection to the server; returns how many frames it was sent."""
    fed = Fed(preface=True)
    written = Written(fed, client=False, stream_window=16 << 20, connection_window=_WINDOW)
    data = PREFACE + settings().packed() + Frame(SETTINGS, ACK).packed()
    data += _broken(ClientTraffic(chance).frames(), chance)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # All of it at once: what is written may be an answer to any of it.
    fed.feed(data)
    writer.write(data)
    with contextlib.suppress(TimeoutError, ConnectionError):
        while True:
            async with asyncio.timeout(_SILENCE_S):
                answer = await reader.read(_READ_BYTES)
            if not answer:
                break
            written.feed(answer)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return len(fed.frames)


async def _server_side(frames: int, seed: int) -> None:
    demo = Demo()
    server = await start_demo(demo)
    channel = Channel(server.address)
    sent = number = 0
    while sent < frames:
        sent += await _attack(server.port, random.Random(f"{seed}-sockets-{number}"))
        number += 1
        assert await unary(channel, "Reverse", b"abc") == b"cba"
    await channel.close()
    await eventually(lambda: not server.statistics().connections)
    assert server.calls == 0
    assert server.statistics().connections_opened == number + 1
    await server.stop(drain_s=0)
    assert demo.failures == []


async def _client_side(frames: int, seed: int) -> None:
    failures: list[BaseException] = []
    answers: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(_CALL_S):
                await reader.read(_READ_BYTES)
                writer.write(answers.get_nowait() if not answers.empty() else b"")
                while await reader.read(_READ_BYTES):
                    pass
        writer.close()

    sent = number = 0
    peer = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = peer.sockets[0].getsockname()[1]
    while sent < frames:
        chance = random.Random(f"{seed}-sockets-{number}")
        number += 1
        fed = Fed(preface=False)
        head = settings().packed() + Frame(SETTINGS, ACK).packed()
        streams = [1 + 2 * index for index in range(_CALLS)]
        data = head + _broken(ServerTraffic(chance).frames(streams), chance)
        fed.feed(data)
        sent += len(fed.frames)
        answers.put_nowait(data)
        channel = Channel(
            f"127.0.0.1:{port}", on_failure=lambda _name, error: failures.append(error)
        )
        calls = [unary(channel, "Reverse", b"abc", timeout_s=_CALL_S) for _ in range(_CALLS)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, bytes | bytearray | RpcError) for result in results), results
        await channel.close()
        await eventually(lambda made=channel: not made.statistics().connections)
        while not answers.empty():
            answers.get_nowait()
    peer.close()
    await peer.wait_closed()
    assert failures == []


@pytest.mark.timeout(_FULL_RUN_S)
@pytest.mark.parametrize("side", [_server_side, _client_side])
def test_broken_frames_over_sockets(
    side: object, seed: int, request: pytest.FixtureRequest
) -> None:
    frames = request.config.getoption("--fuzz-frames") // _SHARE
    assert callable(side)
    uvloop.run(side(frames, seed))
