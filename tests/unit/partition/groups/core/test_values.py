from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.groups.core.values import GroupKey, JoinResponse, SyncResponse


def test_groups_of_two_instances_are_different_keys():
    assert GroupKey(DEFAULT_INSTANCE, "g") != GroupKey(InstanceId("tenant"), "g")
    assert len({GroupKey(DEFAULT_INSTANCE, "g"), GroupKey(DEFAULT_INSTANCE, "g")}) == 1


def test_error_responses_say_nothing_else():
    join = JoinResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="m")
    assert (join.generation, join.protocol, join.leader, join.members) == (-1, None, "", ())
    sync = SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert (sync.protocol, sync.assignment) == (None, b"")
