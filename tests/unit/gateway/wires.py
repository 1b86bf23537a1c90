"""Real loopback connections, and segment files to send from."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Self


async def connected() -> tuple[socket.socket, socket.socket]:
    """(our end, its peer), both non-blocking, with small buffers that sends fill."""
    listening = socket.create_server(("127.0.0.1", 0))
    theirs = socket.socket()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    theirs.setblocking(False)
    await asyncio.get_running_loop().sock_connect(theirs, listening.getsockname())
    ours, _ = listening.accept()
    listening.close()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
    ours.setblocking(False)
    return ours, theirs


async def receive(sock: socket.socket, nbytes: int, *, at_most: int = 1 << 20) -> bytes:
    """Reads exactly `nbytes`, or fewer if the peer ends."""
    got = bytearray()
    async with asyncio.timeout(20):
        while len(got) < nbytes:
            part = await asyncio.get_running_loop().sock_recv(sock, min(at_most, nbytes - len(got)))
            if not part:
                break
            got += part
    return bytes(got)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Range:
    """A `FileRange` that counts its releases."""

    def __init__(self, fd: int, position: int, length: int) -> None:
        self.fd, self.position, self.length = fd, position, length
        self.released = 0

    def release(self) -> None:
        self.released += 1


class Segment:
    """A file whose bytes differ at every place."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self.path = path
        self.data = b"".join(i.to_bytes(4, "big") for i in range(nbytes // 4))
        path.write_bytes(self.data)

    def __enter__(self) -> Self:
        self.fd = os.open(self.path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def range(self, position: int, length: int) -> Range:
        return Range(self.fd, position, min(length, len(self.data) - position))
