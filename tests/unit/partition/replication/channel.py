"""A channel to a fake leader, or to a real leader's session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from highwater.hop.framing import Parts, joined
from highwater.partition.replication.codec import FollowerRequest, decode_request, encode_response
from highwater.partition.replication.rows import NONE, Answered, Asked
from highwater.rpc.status import Status
from tests.support.fake_calls import OK, FakeCall, FakeChannel


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
    place = dict(zip(Answered._fields, asked.place, strict=False))
    return Answered(**(place | known | fields))


class Call(FakeCall):
    """One connection: its requests, and the answers that the test gives. They come a turn later."""

    def __init__(self, channel: Channel, **callbacks: Any) -> None:
        super().__init__(**callbacks)
        self.channel = channel
        self.requests: list[FollowerRequest] = []

    def send(self, parts: Parts) -> None:
        super().send(parts)
        if self.ended is None:
            request = decode_request(joined(parts))
            self.requests.append(request)
            self.channel.on_request(self, request)

    def end(self, status: Status = OK) -> None:
        """By default, the leader's process ends."""
        super().end(status)

    def answer(self, request_id: int, rows: Iterable[Answered] = ()) -> None:  # type: ignore[override]
        self.send_back(joined(encode_response(request_id, rows)))

    def send_back(self, message: bytes) -> None:
        """Any message."""
        asyncio.get_running_loop().call_soon(super().answer, bytearray(message))

    @property
    def asked(self) -> list[Asked]:
        """The rows of the newest request."""
        return list(self.requests[-1].asked)


class Channel(FakeChannel):
    """`calls` are its streams."""

    def __init__(self, address: str = "") -> None:
        super().__init__(address)
        self.calls: list[Call] = []  # type: ignore[assignment]
        self.on_request: Callable[[Call, FollowerRequest], None] = lambda _call, _request: None

    def make_call(self, **callbacks: Any) -> Call:
        return Call(self, **callbacks)

    @property
    def call(self) -> Call:
        """The newest connection."""
        return self.calls[-1]

    async def requested(self, count: int) -> Call:
        """The newest connection, once `count` requests came on it."""
        await until(lambda: self.calls and len(self.call.requests) >= count)
        assert len(self.call.requests) == count
        return self.call
