import pkgutil
from importlib import import_module

import pytest
from grpc import StatusCode

import highwater.hop
import highwater.metadata
import highwater.model
import highwater.rpc
from highwater.gateway.handling.errors import CODES, group_code, kafka_code, leader_code
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import CallOutcomeUnknownError, ControllerCallError
from highwater.model.errors import (
    HighwaterError,
    InvalidRequestError,
    LimitExceededError,
    StaleNodeEpochError,
    UnreachableError,
    UsageError,
)

STAYS_IN_OTHER_SERVICES = {InvalidRequestError, LimitExceededError, StaleNodeEpochError}
"""Servicers raise them; across services they are gRPC statuses, here a `ControllerCallError`."""


class OddUnreachableError(UnreachableError):
    """A leaf class that is not in the table."""


def leaves(error: type[HighwaterError]) -> set[type[HighwaterError]]:
    below = {leaf for child in error.__subclasses__() for leaf in leaves(child)}
    return below or {error}


def test_every_error_that_a_gateway_may_meet_is_in_the_table():
    packages = (highwater.model, highwater.metadata, highwater.hop, highwater.rpc)
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            import_module(module.name)
    met = {
        error
        for error in leaves(HighwaterError)
        if error.__module__.startswith(tuple(package.__name__ + "." for package in packages))
        and not issubclass(error, UsageError)
        and not error.__name__.startswith("_")
    }
    assert met - STAYS_IN_OTHER_SERVICES <= set(CODES)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreachableError("x"), ErrorCode.NOT_CONTROLLER),
        (
            CallOutcomeUnknownError("CreateTopics", StatusCode.INTERNAL, "x"),
            ErrorCode.REQUEST_TIMED_OUT,
        ),
        (
            ControllerCallError("CreateTopics", StatusCode.INTERNAL, "x"),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (OddUnreachableError("x"), ErrorCode.NOT_CONTROLLER),
        (TimeoutError(), ErrorCode.REQUEST_TIMED_OUT),
        (HighwaterError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ValueError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_codes(error, code):
    assert kafka_code(error) is code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreachableError("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (HighwaterError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_codes_of_leaders_make_clients_refresh(error, code):
    assert leader_code(error) is code


@pytest.mark.parametrize(
    ("code", "told"), [(0, 0), (7, 15), (3, 15), (20, 15), (6, 16), (56, 16), (14, 14), (25, 25)]
)
def test_codes_of_the_log_mean_the_coordinator_to_group_clients(code, told):
    assert group_code(code) == told
