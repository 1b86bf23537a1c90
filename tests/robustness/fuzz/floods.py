"""Hostile connections with harmless content: slow, idle, greedy, or never reading."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_CONNECT_TIMEOUT_S = 10.0
_SEND_BYTES = 1 << 16
_LENGTH = struct.Struct(">i")


@contextmanager
def connections(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """Opens `count` connections and closes them at the end."""
    opened: list[socket.socket] = []
    try:
        while len(opened) < count:
            opened.append(socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S))
        yield opened
    finally:
        for one in opened:
            with contextlib.suppress(OSError):
                one.close()


def send_slowly(sockets: Sequence[socket.socket], data: bytes, *, seconds: float) -> int:
    """Sends `data` on every connection one byte at a time; returns how many the broker closed."""
    pause = seconds / len(data)
    closed: set[int] = set()
    for index in range(len(data)):
        for one in sockets:
            if one.fileno() in closed:
                continue
            try:
                one.send(data[index : index + 1])
            except OSError:
                closed.add(one.fileno())
        time.sleep(pause)
    return len(closed)


def send_greedily(sockets: Sequence[socket.socket], *, frame_bytes: int, seconds: float) -> int:
    """Begins a frame of `frame_bytes` on every connection and sends as much as the broker reads.

    Stops one byte before the end of each frame; returns the bytes sent in all.
    """
    chunk = bytes(_SEND_BYTES)
    left = {one.fileno(): frame_bytes - 1 for one in sockets}
    total = 0
    selector = selectors.DefaultSelector()
    for one in sockets:
        one.setblocking(False)
        with contextlib.suppress(OSError):
            one.send(_LENGTH.pack(frame_bytes))
        selector.register(one, selectors.EVENT_WRITE)
    deadline = time.monotonic() + seconds
    while selector.get_map() and time.monotonic() < deadline:
        for key, _ in selector.select(timeout=0.2):
            taker = key.fileobj
            assert isinstance(taker, socket.socket)
            try:
                sent = taker.send(chunk[: left[key.fd]])
            except BlockingIOError:
                continue
            except OSError:
                sent = left[key.fd]  # The broker has closed it.
                total -= sent
            total += sent
            left[key.fd] -= sent
            if left[key.fd] == 0:
                selector.unregister(taker)
    selector.close()
    return total


def send_without_reading(
    sockets: Sequence[socket.socket], request: bytes, *, count: int, seconds: float
) -> int:
    """Sends up to `count` requests on every connection and never reads; returns how many left."""
    queued = {one.fileno(): memoryview(request * count) for one in sockets}
    selector = selectors.DefaultSelector()
    for one in sockets:
        one.setblocking(False)
        selector.register(one, selectors.EVENT_WRITE)
    left = sum(len(data) for data in queued.values())
    total = left
    deadline = time.monotonic() + seconds
    while selector.get_map() and time.monotonic() < deadline:
        for key, _ in selector.select(timeout=0.2):
            taker = key.fileobj
            assert isinstance(taker, socket.socket)
            try:
                sent = taker.send(queued[key.fd][:_SEND_BYTES])
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(taker)
                continue
            queued[key.fd] = queued[key.fd][sent:]
            left -= sent
            if not queued[key.fd]:
                selector.unregister(taker)
    selector.close()
    return (total - left) // len(request)


def begin_frames(sockets: Sequence[socket.socket], *, frame_bytes: int) -> int:
    """Sends all of a frame but its last byte on every connection; returns how many were closed."""
    data = _LENGTH.pack(frame_bytes) + bytes(frame_bytes - 1)
    closed = 0
    for one in sockets:
        one.settimeout(_CONNECT_TIMEOUT_S)
        try:
            one.sendall(data)
        except ConnectionError:
            closed += 1
    return closed
