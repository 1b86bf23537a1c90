import asyncio

import pytest

from highwater.rpc.errors import RpcError
from highwater.rpc.status import Status, StatusCode
from highwater.rpc.unary_handler import UnaryHandler
from highwater.runtime.tasks import TaskOwner

PATH = "/a.B/C"


class FakeCall:
    path = PATH

    def __init__(self):
        self.sent = []
        self.end = None
        self.over = asyncio.Event()

    def send(self, message):
        self.sent.append(message)

    def finish(self, code=StatusCode.OK, details="", metadata=()):
        assert self.end is None
        self.end = (code, details)
        self.over.set()


@pytest.fixture
def failures():
    return []


@pytest.fixture
async def serve(failures):
    def on_failure(name, error):
        failures.append((name, type(error)))

    tasks = TaskOwner(on_failure)

    def begin(handler, deserialize=bytes):
        unary = UnaryHandler(
            handler, deserialize=deserialize, serialize=bytes, tasks=tasks, on_failure=on_failure
        )
        call = FakeCall()
        return call, unary(call)

    yield begin
    await tasks.close(timeout_s=1)


async def over(call):
    await asyncio.wait_for(call.over.wait(), 5)
    return call.end


async def reverse(request, _call):
    return request[::-1]


async def test_a_response_after_the_request_is_complete(serve):
    call, callbacks = serve(reverse)
    callbacks.on_message(bytearray(b"abc"))
    await asyncio.sleep(0)
    assert call.end is None
    callbacks.on_half_close()
    assert await over(call) == (StatusCode.OK, "")
    assert call.sent == [b"cba"]


async def test_a_handler_refuses_by_rpc_error(serve, failures):
    async def refuse(_request, _call):
        raise RpcError(StatusCode.NOT_FOUND, "why")

    call, callbacks = serve(refuse)
    callbacks.on_message(b"")
    callbacks.on_half_close()
    assert await over(call) == (StatusCode.NOT_FOUND, "why")
    assert failures == []


async def test_a_handlers_bug_is_unknown_and_reported(serve, failures):
    async def fail(_request, _call):
        raise ZeroDivisionError

    call, callbacks = serve(fail)
    callbacks.on_message(b"")
    callbacks.on_half_close()
    assert (await over(call))[0] is StatusCode.UNKNOWN
    assert failures == [(PATH, ZeroDivisionError)]


async def test_a_malformed_request(serve):
    def refuse(_message):
        raise ValueError("torn")

    call, callbacks = serve(reverse, deserialize=refuse)
    callbacks.on_message(b"")
    callbacks.on_half_close()
    assert call.end == (StatusCode.INTERNAL, "malformed request: torn")


async def test_no_request_and_two_requests(serve):
    call, callbacks = serve(reverse)
    callbacks.on_half_close()
    assert call.end[0] is StatusCode.INTERNAL
    call, callbacks = serve(reverse)
    callbacks.on_message(b"1")
    callbacks.on_message(b"2")
    assert call.end[0] is StatusCode.INTERNAL


async def test_the_handler_ends_with_the_call(serve):
    cancelled = asyncio.Event()

    async def wait(_request, _call):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    _, callbacks = serve(wait)
    callbacks.on_message(b"")
    callbacks.on_half_close()
    await asyncio.sleep(0)
    callbacks.on_end(Status(StatusCode.CANCELLED))
    await asyncio.wait_for(cancelled.wait(), 5)
