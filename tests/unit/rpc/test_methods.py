"""Methods by path; `test_unary_handler` has what a unary call does."""

import pytest

from highwater.rpc.methods import Methods
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.status import StatusCode
from highwater.runtime.tasks import TaskOwner
from tests.support.fake_calls import FakeServerCall
from tests.support.rpc_demo import eventually

STREAM, UNARY = "/test.Service/Stream", "/test.Service/Unary"


@pytest.fixture
def failures():
    return []


@pytest.fixture
async def methods(failures):
    def failed(name, error):
        failures.append((name, type(error)))

    tasks = TaskOwner(failed)
    yield Methods(tasks, failed)
    await tasks.close(timeout_s=1)


def serve(call):
    return ServerCallbacks(on_message=call.send)


async def upper(request, _call):
    return request.upper()


async def test_a_method_is_found_by_its_path(methods):
    methods.add_stream(STREAM, serve)
    assert methods.handler_of(STREAM) is serve
    assert methods.handler_of(UNARY) is None


async def test_a_path_is_served_once(methods):
    methods.add_stream(STREAM, serve)
    with pytest.raises(AssertionError, match="served already"):
        methods.add_stream(STREAM, serve)
    with pytest.raises(AssertionError, match="served already"):
        methods.add_unary(STREAM, upper, deserialize=bytes, serialize=bytes)


async def test_a_unary_method_is_a_stream_of_one_message(methods):
    methods.add_unary(UNARY, upper, deserialize=bytes, serialize=bytes)
    call = FakeServerCall(UNARY)
    call.serve(methods.handler_of(UNARY))
    call.message(b"abc")
    call.half_close()
    await eventually(lambda: call.status is not None)
    assert (call.written, call.status.code) == ([b"ABC"], StatusCode.OK)


async def test_a_bug_of_a_unary_method_is_reported(methods, failures):
    async def fail(_request, _call):
        raise ZeroDivisionError

    methods.add_unary(UNARY, fail, deserialize=bytes, serialize=bytes)
    call = FakeServerCall(UNARY)
    call.serve(methods.handler_of(UNARY))
    call.message(b"")
    call.half_close()
    await eventually(lambda: call.status is not None)
    assert call.status.code is StatusCode.UNKNOWN
    assert failures == [(UNARY, ZeroDivisionError)]
