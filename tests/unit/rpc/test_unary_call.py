import asyncio

import pytest

from highwater.rpc.errors import RpcError
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.unary_call import UnaryCall


class FakeCall:
    def __init__(self):
        self.sent = []
        self.half_closed = self.cancelled = False
        self.failed = None
        self.unprocessed = True

    def send(self, message):
        assert not self.half_closed
        self.sent.append(message)

    def half_close(self):
        self.half_closed = True

    def cancel(self):
        self.cancelled = True

    def fail(self, code, _details):
        self.failed = code


@pytest.fixture
async def begun():
    call, fake = UnaryCall(asyncio.get_running_loop()), FakeCall()
    call.begin(fake, b"request")
    return call, fake


async def test_one_request_and_one_response(begun):
    call, fake = begun
    assert (fake.sent, fake.half_closed) == ([b"request"], True)
    call.on_message(bytearray(b"response"))
    call.on_end(Status(StatusCode.OK))
    assert await call.response() == b"response"


async def test_another_status_is_an_error(begun):
    call, _ = begun
    call.on_end(Status(StatusCode.NOT_FOUND, "why", [("k", "v")]))
    with pytest.raises(RpcError, match="NOT_FOUND: why"):
        await call.response()
    assert call.unprocessed


async def test_no_response_is_an_error(begun):
    call, _ = begun
    call.on_end(Status(StatusCode.OK))
    with pytest.raises(RpcError, match="no response"):
        await call.response()


async def test_two_responses_are_an_error(begun):
    call, fake = begun
    call.on_message(b"1")
    call.on_message(b"2")
    assert fake.failed is StatusCode.INTERNAL


async def test_the_call_is_cancelled_with_its_waiter(begun):
    call, fake = begun
    waiting = asyncio.ensure_future(call.response())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert fake.cancelled
    call.on_end(Status(StatusCode.CANCELLED))
