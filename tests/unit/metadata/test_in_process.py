"""Calls within the process behave as over gRPC."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from highwater.metadata.in_process import InProcessStub
from highwater.metadata.status import code_of, details_of, trailing_value


class Servicer:
    """Some methods in the form of gRPC servicers."""

    def __init__(self) -> None:
        self.ended = False

    async def Double(self, request: int, context: Any) -> int:
        if request < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "negative", (("k", "v"),))
        return 2 * request

    async def Slow(self, request: int, context: Any) -> float:
        left = context.time_remaining()
        await asyncio.sleep(request)
        assert isinstance(left, float)
        return left

    async def Count(self, request: int, context: Any) -> AsyncIterator[int]:
        assert context.time_remaining() is None
        try:
            for n in range(request):
                yield n
            await asyncio.sleep(60)
        finally:
            self.ended = True


async def test_unary() -> None:
    stub = InProcessStub(Servicer())
    assert await stub.Double(4, timeout=1) == 8
    with pytest.raises(grpc.RpcError) as raised:
        await stub.Double(-1, timeout=1)
    error = raised.value
    assert (code_of(error), details_of(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "negative")
    assert trailing_value(error, "k") == "v"


async def test_deadlines() -> None:
    stub = InProcessStub(Servicer())
    with pytest.raises(grpc.RpcError) as raised:
        await stub.Slow(5, timeout=0.05)
    assert code_of(raised.value) == grpc.StatusCode.DEADLINE_EXCEEDED
    assert 0 < await stub.Slow(0, timeout=2) <= 2


async def test_closing_a_stream_ends_the_servicers_side() -> None:
    servicer = Servicer()
    stream = InProcessStub(servicer).Count(3)
    assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
    assert not servicer.ended
    await stream.aclose()
    assert servicer.ended


async def test_a_cancelled_reader_ends_the_servicers_side() -> None:
    servicer = Servicer()

    async def read() -> None:
        async for _ in InProcessStub(servicer).Count(1):
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read(), 0.05)
    assert servicer.ended


def test_an_unknown_method() -> None:
    with pytest.raises(AttributeError):
        InProcessStub(Servicer()).Nothing(1)
