"""Reads the metadata of a failed call."""

import grpc

from highwater.metadata.status import (
    InProcessRpcError,
    code_of,
    details_of,
    is_not_controller,
    trailing_value,
)
from tests.support.fake_controllers import not_controller, unavailable


def test_not_controller() -> None:
    assert is_not_controller(not_controller())
    assert not is_not_controller(unavailable())
    assert "UNAVAILABLE" in str(unavailable())


def test_byte_values_and_missing_keys() -> None:
    error = InProcessRpcError(grpc.StatusCode.OK, "", (("k", b"v"),))  # type: ignore[arg-type]
    assert trailing_value(error, "k") == "v"
    assert trailing_value(error, "other") == ""


def test_an_error_without_metadata() -> None:
    error = grpc.RpcError("plain")
    assert code_of(error) == grpc.StatusCode.UNKNOWN
    assert details_of(error) == "plain"
    assert trailing_value(error, "k") == ""
