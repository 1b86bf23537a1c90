"""The end of a group whose instance was purged: whatever it has, and whoever is in it."""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.consumer_port import ConsumerPort
from highwater.partition.groups.core.durable import GroupRecord
from highwater.partition.groups.core.offsets import delete_all_offsets
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.values import GroupKey


def forget_group(state: ShardState, consumer: ConsumerPort, key: GroupKey, now: Moment) -> bool:
    """Delete the group, of either type, with all its offsets; True, as it needs no second attempt.

    Calls that wait get the error that all others of the instance get. Pending offsets go, too: their
    transactions are aborted by the transaction coordinator.
    """
    delete_all_offsets(state, key)
    if key in state.durable.consumer_groups:
        consumer.forget(key)
    if key in state.durable.images:
        state.apply(GroupRecord(key, None))
    group = state.groups.get(key)
    if group is not None:
        state.dissolve(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, now.wall_ms)
    return True
