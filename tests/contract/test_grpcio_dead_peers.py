"""Connections whose peer is gone, which grpcio does not see by itself: its probes do."""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.runtime.grpc_options import GRPCIO_KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS
from highwater.runtime.grpc_server import GrpcServer
from tests.support.process import wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, WINDOW_UPDATE, ACK = 1, 4, 8, 1
HEAD = 9
UPDATES = 20
"""At first grpcio reads until nothing is left, later only if the kernel tells it to."""
NOTICED_S_MAX = GRPCIO_KEEPALIVE_MS / 1000 + 3.0
SILENT_S_MAX = (GRPCIO_KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS) / 1000 + 3.0
"""A peer that takes what it is sent, and answers nothing, is left after that."""
STEP_S_MAX = 30.0


def frame(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    """A frame of stream 0."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + bytes(4) + payload


def kinds(got: bytes) -> list[int]:
    """The kinds of the whole frames behind a client's preface."""
    found, at = [], len(PREFACE)
    while len(got) >= at + HEAD:
        end = at + HEAD + int.from_bytes(got[at : at + 3], "big")
        if end > len(got):
            break
        found.append(got[at + 3])
        at = end
    return found


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs: each stops by itself, after the signal was sent."""
    states = [
        each.read_text().rpartition(")")[2].split()[0]
        for each in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return set(states) == {"T"}


@contextlib.contextmanager
def streaming_client() -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """A process with a stream over grpcio that has begun, and our end of its connection."""
    with contextlib.ExitStack() as undo:
        listener = undo.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(STEP_S_MAX)
        host, port = listener.getsockname()
        client = subprocess.Popen(
            [sys.executable, "-m", "tests.support.grpcio_stream_client", f"{host}:{port}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        undo.callback(client.wait, STEP_S_MAX)
        undo.callback(client.kill)
        assert client.stdout is not None
        undo.enter_context(client.stdout)
        connection = undo.enter_context(listener.accept()[0])
        connection.settimeout(STEP_S_MAX)
        connection.sendall(frame(SETTINGS) + frame(SETTINGS, ACK))
        got = b""
        while HEADERS not in kinds(got):
            data = connection.recv(65536)
            assert data
            got += data
        assert client.stdout.readline() == "open\n"
        yield client, connection


def ended_after_s(client: subprocess.Popen[str], begun_s: float) -> float:
    """How long after that the client's stream has ended. Fails if it goes on, or ends otherwise."""
    assert client.stdout is not None
    readable, _, _ = select.select([client.stdout], [], [], STEP_S_MAX)
    assert readable, "the stream goes on"
    assert client.stdout.readline() == "ended\n"
    after_s = time.monotonic() - begun_s
    assert client.wait(STEP_S_MAX) == 0
    return after_s


@pytest.mark.timeout(120)
def test_a_reset_behind_data_is_noticed_by_the_next_probe() -> None:
    update = frame(WINDOW_UPDATE, payload=struct.pack(">I", 1000))
    with streaming_client() as (client, connection):
        for _ in range(UPDATES):
            connection.sendall(update)
            time.sleep(0.005)
        # Stopped, it meets both as one event, as a process does that gets no processor time.
        client.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(client.pid), timeout_s=STEP_S_MAX, what="a stopped client")
        # Nothing is to be answered to this frame, so the client writes nothing.
        connection.sendall(update)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        time.sleep(0.1)
        client.send_signal(signal.SIGCONT)
        assert ended_after_s(client, time.monotonic()) < NOTICED_S_MAX


@pytest.mark.timeout(120)
def test_a_client_leaves_a_server_that_answers_no_probe() -> None:
    with streaming_client() as (client, _):
        assert ended_after_s(client, time.monotonic()) < SILENT_S_MAX


@pytest.mark.timeout(120)
async def test_a_server_leaves_a_client_that_answers_no_probe() -> None:
    server = GrpcServer("127.0.0.1", 0)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(PREFACE + frame(SETTINGS) + frame(SETTINGS, ACK))
        begun_s = time.monotonic()
        async with asyncio.timeout(STEP_S_MAX):
            while await reader.read(65536):
                """Settings and probes."""
        assert time.monotonic() - begun_s < SILENT_S_MAX
        writer.close()
    finally:
        await server.stop(drain_s=0)
