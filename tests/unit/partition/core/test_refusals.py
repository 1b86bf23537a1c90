"""What a replica answers that does not serve."""

from __future__ import annotations

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.refusals import (
    log_failure_code,
    refuse_deletion,
    refuse_epoch,
    refuse_role,
)
from highwater.partition.core.transitions import Role

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OFFLINE])
def test_who_does_not_lead_says_so(role: Role) -> None:
    assert refuse_role(role, True, False) == NOT_LEADER


def test_a_failed_log_is_told_of_only_where_nobody_else_leads() -> None:
    assert refuse_role(Role.OFFLINE, True, False) == ErrorCode.KAFKA_STORAGE_ERROR
    assert refuse_role(Role.OFFLINE, False, False) == NOT_LEADER
    assert refuse_role(Role.OFFLINE, True, True) == NOT_LEADER, "another replica is about to lead"
    assert log_failure_code(False) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log_failure_code(True) == ErrorCode.REQUEST_TIMED_OUT


def test_epochs_of_reads() -> None:
    assert [refuse_epoch(asked, 5) for asked in (-1, 5)] == [0, 0]
    assert refuse_epoch(4, 5) == ErrorCode.FENCED_LEADER_EPOCH
    assert refuse_epoch(6, 5) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_only_committed_records_are_deleted() -> None:
    codes = [refuse_deletion(offset, 5) for offset in (-1, 0, 5, 6)]
    out = ErrorCode.OFFSET_OUT_OF_RANGE
    assert codes == [out, 0, 0, out]
