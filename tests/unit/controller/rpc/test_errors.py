"""Errors in gRPC status codes."""

import pkgutil
from importlib import import_module

import grpc
import pytest

import highwater.controller
import highwater.model
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.rpc.errors import STATUS, streaming, unary
from highwater.controller.store.port import (
    CompactedError,
    LeaseLostError,
    OutcomeUnknownError,
    StoreBrokenError,
    StoreUnavailableError,
    StoreWentBackError,
)
from highwater.metadata.in_process import InProcessStub
from highwater.metadata.status import (
    ACTIVE_KEY,
    REASON_KEY,
    InProcessRpcError,
    is_not_controller,
    trailing_value,
)
from highwater.model.errors import (
    HighwaterError,
    InvalidRequestError,
    LimitExceededError,
    StaleNodeEpochError,
    UnreachableError,
    UsageError,
)

ENDS_TERMS = {CompactedError, LeaseLostError}
"""Of watches and leases of the store: the leader's tasks end by them, and no call meets them."""

OF_OTHER_SERVICES = {StaleNodeEpochError, UnreachableError}
"""The quota service's, and those of clients."""


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


def leaves(error: type[HighwaterError]) -> set[type[HighwaterError]]:
    below = {leaf for child in error.__subclasses__() for leaf in leaves(child)}
    return below or {error}


def test_every_error_that_a_call_may_meet_is_in_the_table() -> None:
    ours = ("highwater.model.", "highwater.controller.")
    for package in (highwater.model, highwater.controller):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    met = {
        error
        for error in leaves(HighwaterError)
        if error.__module__.startswith(ours)
        and not issubclass(error, UsageError)
        and not error.__name__.startswith("_")
    }
    assert met - ENDS_TERMS - OF_OTHER_SERVICES == set(STATUS)


WANTED = {
    NotActiveError: "FAILED_PRECONDITION",
    StoreUnavailableError: "UNAVAILABLE",
    LimitExceededError: "RESOURCE_EXHAUSTED",
    OutcomeUnknownError: "ABORTED",
    StoreWentBackError: "FAILED_PRECONDITION",
    InvalidRequestError: "INVALID_ARGUMENT",
    StoreBrokenError: "INTERNAL",
}


@pytest.mark.parametrize("kind", STATUS)
async def test_status_and_reason_of_each_error_in_the_table(kind: type[HighwaterError]) -> None:
    error = await fail(kind("why"))
    assert error.code().name == WANTED[kind]
    assert trailing_value(error, REASON_KEY) == kind.reason
    assert kind is NotActiveError or error.details() == "why"


async def test_an_error_that_is_not_in_the_table_is_a_bug() -> None:
    error = await fail(StaleNodeEpochError("?"))
    assert error.code() is grpc.StatusCode.INTERNAL


async def test_streams() -> None:
    stream = aiter(InProcessStub(Servicer()).Stream(NotActiveError()))
    assert await anext(stream) == 1
    with pytest.raises(InProcessRpcError) as raised:
        await anext(stream)
    assert is_not_controller(raised.value)
