"""The gRPC errors by which a controller refuses a call, and how callers read them.

The trailing metadata carries `highwater-reason`, a constant such as NOT_CONTROLLER, and for
NOT_CONTROLLER also `highwater-active`, host:port of the active controller if it is known.
"""

from typing import Final, NoReturn, Protocol

import grpc

REASON_KEY: Final = "highwater-reason"
ACTIVE_KEY: Final = "highwater-active"
NOT_CONTROLLER: Final = "NOT_CONTROLLER"
STORE_UNAVAILABLE: Final = "STORE_UNAVAILABLE"


class Context(Protocol):
    """The parts of a call's context that servicers use, in process or over gRPC."""

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: tuple[tuple[str, str], ...] = (),
    ) -> NoReturn:
        """Ends the call with an error."""
        ...


class InProcessRpcError(grpc.RpcError):
    """The error of an in-process call, in place of gRPC's AioRpcError."""

    def __init__(
        self, code: grpc.StatusCode, details: str, trailing: tuple[tuple[str, str], ...]
    ) -> None:
        """Keep what the servicer aborted with."""
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details
        self._trailing = trailing

    def code(self) -> grpc.StatusCode:
        """The status code."""
        return self._code

    def details(self) -> str:
        """The message for people."""
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:  # type: ignore[override]  # stubs.
        """Keys and values beside the status."""
        return self._trailing


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """The status code of a failed call."""
    code = getattr(error, "code", None)
    value = code() if callable(code) else None
    return value if isinstance(value, grpc.StatusCode) else grpc.StatusCode.UNKNOWN


def details_of(error: grpc.RpcError) -> str:
    """The message of a failed call."""
    details = getattr(error, "details", None)
    return str(details() if callable(details) else error)


def trailing_value(error: grpc.RpcError, key: str) -> str:
    """A value of a failed call's trailing metadata, empty if it is not there."""
    trailing = getattr(error, "trailing_metadata", None)
    pairs = trailing() if callable(trailing) else None
    for name, value in pairs or ():
        if name == key:
            return value.decode() if isinstance(value, bytes) else str(value)
    return ""


def is_not_controller(error: grpc.RpcError) -> bool:
    """True if the callee is not the active controller; the call then had no effect."""
    return trailing_value(error, REASON_KEY) == NOT_CONTROLLER


def is_store_unavailable(error: grpc.RpcError) -> bool:
    """True if the callee is the active controller and cannot reach its store at the moment."""
    return trailing_value(error, REASON_KEY) == STORE_UNAVAILABLE
