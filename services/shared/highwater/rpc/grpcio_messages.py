"""What both ends of a call over grpc.aio share: messages that wait to be written, and statuses."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

import grpc

from highwater.http2.ports import Buffer
from highwater.rpc.metadata import Metadata
from highwater.rpc.status import StatusCode
from highwater.runtime.shared_secret import METADATA_KEY


def code_of(code: grpc.StatusCode) -> StatusCode:
    """Our name of grpcio's code."""
    return StatusCode(code.value[0])


def grpcio_code_of(code: StatusCode) -> grpc.StatusCode:
    """grpcio's name of our code."""
    return grpc.StatusCode[code.name]


def metadata_of(pairs: Iterable[tuple[str, str | bytes]] | None) -> Metadata:
    """grpcio's metadata, without what grpc keeps for itself, and without the cluster's secret."""
    return [
        (key, value)
        for key, value in pairs or ()
        if key != METADATA_KEY and not key.startswith("grpc-")
    ]


class Outgoing:
    """Messages of one call in order, joined, for the one task that writes them.

    `can_send` is False while one is written: until then, others gather at their owner.
    """

    __slots__ = ("_ending", "_filled", "_messages", "_on_writable", "_wanted", "nbytes")

    def __init__(self, on_writable: Callable[[], None]) -> None:
        """`on_writable` follows a `can_send` that was False; what it raises ends `run`."""
        self._on_writable = on_writable
        self._messages: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._wanted = False
        self._ending = False
        self.nbytes = 0
        """Of the messages that are not written."""

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """Queues a message; ignored after `end`."""
        if self._ending:
            return
        if isinstance(parts, bytes | bytearray | memoryview):
            message = bytes(parts)
        else:
            message = b"".join(parts)
        self._messages.append(message)
        self.nbytes += len(message)
        self._filled.set()

    def can_send(self) -> bool:
        """False while a message waits or is being written."""
        if self._messages:
            self._wanted = True
            return False
        return True

    def end(self) -> None:
        """`run` returns after the last message."""
        self._ending = True
        self._filled.set()

    async def run(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Writes until `end`."""
        messages = self._messages
        while True:
            while messages:
                await write(messages[0])
                self.nbytes -= len(messages.popleft())
            if self._wanted and not self._ending:
                self._wanted = False
                self._on_writable()
                continue
            if self._ending:
                return
            self._filled.clear()
            await self._filled.wait()
