"""Fake gateways on their own loopback addresses."""

import asyncio
import contextlib
import socket

from highwater.balancer.sockets.health import QUESTION
from highwater.runtime.proxy_protocol import (
    LOCAL_HEADER,
    PREFIX_BYTES,
    header_bytes,
    read_header,
)

ANSWER = b"\0\0\0\x0a\0\0\0\x01" + bytes(6)


class FakeGateway:
    """Answers health checks; sends its name to clients and then echoes what they send."""

    def __init__(self, address, *, proxied=True):
        self.address = address
        self.proxied = proxied
        self.healthy = True
        self.clients = []
        self.checks = 0
        self._sockets = []
        self._writers = set()
        self._tasks = {}
        self._handed_over = set()
        """Sockets that a transport closes."""

    async def serve(self, *ports):
        # asyncio's own servers lose a connection that arrives while they close.
        for port in ports:
            sock = socket.create_server((self.address, port))
            sock.setblocking(False)
            self._sockets.append(sock)
            asyncio.get_running_loop().add_reader(sock, self._accept, sock)
        return self._sockets[0].getsockname()[1]

    def _accept(self, sock):
        with contextlib.suppress(BlockingIOError):
            connection, _ = sock.accept()
            connection.setblocking(False)
            task = asyncio.ensure_future(self._serve(connection))
            self._tasks[task] = connection
            task.add_done_callback(self._forget)

    def _forget(self, task):
        connection = self._tasks.pop(task)
        if connection not in self._handed_over:
            connection.close()

    async def _serve(self, connection):
        reader, writer = await asyncio.open_connection(sock=connection)
        self._handed_over.add(connection)
        self._writers.add(writer)
        with contextlib.suppress(OSError, EOFError):
            client = None
            if self.proxied:
                header = await reader.readexactly(PREFIX_BYTES)
                header += await reader.readexactly(header_bytes(header) - PREFIX_BYTES)
                client = read_header(header)
            if self.proxied and header == LOCAL_HEADER:
                assert await reader.readexactly(len(QUESTION)) == QUESTION
                self.checks += 1
                if self.healthy:
                    writer.write(ANSWER)
                    await writer.drain()
            else:
                self.clients.append(client)
                writer.write(f"{self.address}:".encode())
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    await writer.drain()
        writer.close()
        self._writers.discard(writer)

    async def stop(self):
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self._sockets = []
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0)


def free_block(count, host="127.0.0.1"):
    """The first of `count` free consecutive ports."""
    for first in range(21_000, 31_000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                sock = stack.enter_context(socket.socket())
                sock.bind((host, port))
            return first
    raise AssertionError("no free ports")
