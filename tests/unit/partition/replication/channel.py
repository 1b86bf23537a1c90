"""A channel to a fake leader, or to a real leader's session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import grpc.aio

from highwater.partition.replication.codec import FollowerRequest, decode_request, encode_response
from highwater.partition.replication.follower.fetcher import METHOD
from highwater.partition.replication.rows import NONE, Answered, Asked


async def until(condition: Callable[[], object], timeout_s: float = 10) -> None:
    """Waits until the condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


def answer_to(asked: Asked, *batches: bytes, **fields: Any) -> Answered:
    """An answer row without offsets unless they are given."""
    known = {
        "error_code": 0,
        "high_watermark": 0,
        "log_start_offset": 0,
        "log_end_offset": 1000,
        "diverging_epoch": NONE,
        "diverging_end_offset": NONE,
        "records": memoryview(b"".join(batches)),
    }
    return Answered(**(asked._asdict() | known | fields))


class Call:
    """One connection: its requests, and the answers that the test gives."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.requests: list[FollowerRequest] = []
        self.cancelled = False
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()

    async def wait_for_connection(self) -> None:
        if not self.channel.connects:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "refused"
            )

    async def read(self) -> Any:
        item = await self._inbox.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def write(self, message: bytes) -> None:
        request = decode_request(message)
        self.requests.append(request)
        self.channel.on_request(self, request)

    def cancel(self) -> None:
        self.cancelled = True
        self._inbox.put_nowait(asyncio.CancelledError())

    def end(self) -> None:
        """The leader's process ends."""
        self._inbox.put_nowait(grpc.aio.EOF)  # type: ignore[attr-defined]

    def answer(self, request_id: int, rows: Iterable[Answered] = ()) -> None:
        self._inbox.put_nowait(encode_response(request_id, rows))

    def send(self, message: bytes) -> None:
        """Any message."""
        self._inbox.put_nowait(message)

    @property
    def asked(self) -> list[Asked]:
        """The rows of the newest request."""
        return list(self.requests[-1].asked)


class Channel:
    """Stands for a grpc.aio channel; `calls` are its streams."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.connects = True
        self.calls: list[Call] = []
        self.closed = False
        self.on_request: Callable[[Call, FollowerRequest], None] = lambda _call, _request: None

    def stream_stream(self, method: str) -> Callable[[], Call]:
        assert method == METHOD
        return self._open

    def _open(self) -> Call:
        self.calls.append(Call(self))
        return self.calls[-1]

    async def close(self, grace: float | None) -> None:
        self.closed = True

    @property
    def call(self) -> Call:
        """The newest connection."""
        return self.calls[-1]

    async def requested(self, count: int) -> Call:
        """The newest connection, once `count` requests came on it."""
        await until(lambda: self.calls and len(self.call.requests) >= count)
        assert len(self.call.requests) == count
        return self.call
