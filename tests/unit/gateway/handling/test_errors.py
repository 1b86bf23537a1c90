import pytest
from grpc import StatusCode

from highwater.gateway.handling.errors import group_code, kafka_code, leader_code
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import CallOutcomeUnknownError, ControllerCallError
from highwater.model.errors import (
    FencedLeaderEpochError,
    HighwaterError,
    NotLeaderError,
    NotReadyError,
    StorageError,
    UnreachableError,
)


class OddStorageError(StorageError):
    """A leaf that the table does not name."""


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
        (NotLeaderError("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (OddStorageError("x"), ErrorCode.KAFKA_STORAGE_ERROR),
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
        (UnreachableError("x"), ErrorCode.LEADER_NOT_AVAILABLE),
        (NotReadyError("x"), ErrorCode.LEADER_NOT_AVAILABLE),
        (NotLeaderError("x"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (FencedLeaderEpochError("x"), ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_codes_of_leaders_make_clients_refresh(error, code):
    assert leader_code(error) is code


@pytest.mark.parametrize(
    ("code", "told"), [(0, 0), (7, 15), (3, 15), (20, 15), (6, 16), (56, 16), (14, 14), (25, 25)]
)
def test_codes_of_the_log_mean_the_coordinator_to_group_clients(code, told):
    assert group_code(code) == told
