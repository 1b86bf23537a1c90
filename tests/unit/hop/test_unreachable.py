"""Nodes whose address is none: their peers go on."""

import asyncio

import pytest

from highwater.hop.settings import HopTransport
from highwater.hop.stream import Stream
from highwater.hop.transport import open_channel
from highwater.hop.unreachable import UnreachableChannel
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode

WHY = "no address: 'in-process'"


def refuse(name, error):
    raise AssertionError(f"{name}: {error}")


@pytest.fixture
async def channel():
    made = open_channel("in-process", HopTransport.LOOP, refuse)
    assert isinstance(made, UnreachableChannel)
    yield made
    await made.close()
    assert made.statistics() is None


async def test_a_stream_is_opened_again_and_again(channel):
    broken, opened = [], []
    stream = Stream(
        channel,
        "/service/Method",
        next_message=lambda: None,
        received=opened.append,
        opened=lambda: opened.append(1),
        broken=broken.append,
        on_bug=lambda error: refuse("stream", error),
    )
    stream.start()
    async with asyncio.timeout(5):
        while len(broken) < 2:
            await asyncio.sleep(0.005)
    stream.stop()
    assert set(broken) == {WHY}
    assert opened == []


async def test_a_call_ends_once(channel):
    ends = []
    call = channel.stream("/service/Method", on_message=ends.append, on_end=ends.append)
    assert ends == [], "callbacks come later"
    call.send(b"x")
    assert (call.can_send(), call.unsent_bytes) == (False, 0)
    call.pause_reading()
    call.resume_reading()
    call.half_close()
    call.cancel()
    assert [status.code for status in ends] == [StatusCode.CANCELLED]
    await asyncio.sleep(0.01)
    assert len(ends) == 1


async def test_a_unary_call_says_why(channel):
    with pytest.raises(RpcError) as caught:
        await channel.unary("/service/Method", b"", serialize=bytes, deserialize=bytes, timeout_s=1)
    assert (caught.value.code, caught.value.details) == (StatusCode.UNAVAILABLE, WHY)
