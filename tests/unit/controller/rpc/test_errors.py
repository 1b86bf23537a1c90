"""Errors in gRPC status codes."""

import pytest

from highwater.controller.image.not_active import NotActiveError
from highwater.controller.rpc.errors import STATUS, streaming, unary
from highwater.controller.store.port import StoreUnavailableError
from highwater.metadata.in_process import InProcessStub
from highwater.metadata.status import (
    ACTIVE_KEY,
    REASON_KEY,
    InProcessRpcError,
    is_not_controller,
    trailing_value,
)
from highwater.model.errors import HighwaterError, StaleNodeEpochError


class Servicer:
    """Raises the error in the request."""

    def active_address(self) -> str:
        return "there:1"

    @unary
    async def Call(self, request: Exception | int) -> int:
        if isinstance(request, Exception):
            raise request
        return request + 1

    @streaming
    async def Stream(self, request: Exception):  # type: ignore[no-untyped-def]
        yield 1
        raise request


async def fail(error: HighwaterError) -> InProcessRpcError:
    with pytest.raises(InProcessRpcError) as raised:
        await InProcessStub(Servicer()).Call(error, timeout=1)
    return raised.value


async def test_success() -> None:
    assert await InProcessStub(Servicer()).Call(1, timeout=1) == 2


async def test_a_standby_names_the_active_one() -> None:
    error = await fail(NotActiveError())
    assert error.code().name == "FAILED_PRECONDITION"
    assert is_not_controller(error)
    assert trailing_value(error, ACTIVE_KEY) == "there:1"
    assert trailing_value(await fail(NotActiveError("here:2")), ACTIVE_KEY) == "here:2"


async def test_errors_in_the_table_and_others() -> None:
    error = await fail(StoreUnavailableError("gone"))
    assert (error.code().name, error.details()) == ("UNAVAILABLE", "gone")
    assert trailing_value(error, REASON_KEY) == "STORE_UNAVAILABLE"
    assert (await fail(StaleNodeEpochError("?"))).code().name == "INTERNAL"
    assert NotActiveError in STATUS


async def test_streams() -> None:
    stream = aiter(InProcessStub(Servicer()).Stream(NotActiveError()))
    assert await anext(stream) == 1
    with pytest.raises(InProcessRpcError) as raised:
        await anext(stream)
    assert is_not_controller(raised.value)
