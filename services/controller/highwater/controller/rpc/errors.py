"""The controller's errors as gRPC statuses: the one table, and the wrapper that applies it."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import grpc

from highwater.controller.image.not_active import NotActiveError
from highwater.controller.store.port import (
    OutcomeUnknownError,
    StoreBrokenError,
    StoreUnavailableError,
    StoreWentBackError,
)
from highwater.metadata.status import ACTIVE_KEY, REASON_KEY, Context
from highwater.model.errors import HighwaterError, InvalidRequestError, LimitExceededError

STATUS: Final[dict[type[HighwaterError], grpc.StatusCode]] = {
    NotActiveError: grpc.StatusCode.FAILED_PRECONDITION,
    StoreUnavailableError: grpc.StatusCode.UNAVAILABLE,
    LimitExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    OutcomeUnknownError: grpc.StatusCode.ABORTED,
    StoreWentBackError: grpc.StatusCode.FAILED_PRECONDITION,
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    # No other controller has this store, and this one has to be restarted: nothing to repeat.
    StoreBrokenError: grpc.StatusCode.INTERNAL,
}

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


async def abort(context: Context, error: HighwaterError) -> NoReturn:
    """Ends the call with the error's status. An error that is not in the table is a bug."""
    code = STATUS.get(type(error), grpc.StatusCode.INTERNAL)
    trailing = [(REASON_KEY, error.reason)]
    if isinstance(error, NotActiveError) and error.active_address:
        trailing.append((ACTIVE_KEY, error.active_address))
    await context.abort(code, str(error), tuple(trailing))


def unary(
    method: Callable[[Any, _Request], Awaitable[_Response]],
) -> Callable[[Any, _Request, Context], Awaitable[_Response]]:
    """Wraps a servicer's method that takes the request and raises our errors."""

    @functools.wraps(method)
    async def call(self: Any, request: _Request, context: Context) -> _Response:
        try:
            return await method(self, request)
        except NotActiveError as error:
            await abort(context, NotActiveError(error.active_address or self.active_address()))
        except HighwaterError as error:
            await abort(context, error)

    return call


def streaming(
    method: Callable[[Any, _Request], AsyncIterator[_Response]],
) -> Callable[[Any, _Request, Context], AsyncIterator[_Response]]:
    """Wraps a method that answers with a stream."""

    @functools.wraps(method)
    async def call(self: Any, request: _Request, context: Context) -> AsyncIterator[_Response]:
        try:
            async for response in method(self, request):
                yield response
        except NotActiveError as error:
            await abort(context, NotActiveError(error.active_address or self.active_address()))
        except HighwaterError as error:
            await abort(context, error)

    return call
