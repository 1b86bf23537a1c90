"""A connection that is reset right behind data: grpcio may not see it, its probes do."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater.runtime.grpc_options import GRPCIO_KEEPALIVE_MS
from tests.support.process import wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, WINDOW_UPDATE, ACK = 1, 4, 8, 1
HEAD = 9
UPDATES = 20
"""At first grpcio reads until nothing is left, later only if the kernel tells it to."""
NOTICED_S_MAX = GRPCIO_KEEPALIVE_MS / 1000 + 3.0
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


@pytest.mark.timeout(120)
def test_a_reset_behind_data_is_noticed_by_the_next_probe():
    update = frame(WINDOW_UPDATE, payload=struct.pack(">I", 1000))
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
        begun_s = time.monotonic()
        assert client.stdout.readline() == "ended\n"
        assert time.monotonic() - begun_s < NOTICED_S_MAX
        assert client.wait(STEP_S_MAX) == 0
