"""DeleteGroups v0-2 (key 42): deletes empty groups with all their offsets."""

from collections.abc import Callable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_groups import (
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey


def handle(
    shard_of: Callable[[str], GroupCoordinatorShard | ErrorCode],
    call: CoordinatorCall,
    now: Moment,
) -> bytes:
    """Delete each group that may be deleted; answer a group that is named twice only once."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    results = []
    for group_id in dict.fromkeys(body.groups_names):
        shard = shard_of(group_id)
        if isinstance(shard, ErrorCode):
            error = shard
        else:
            error = shard.delete_group(GroupKey(call.instance, group_id), now)
        results.append(
            DeleteGroupsResponseDeletableGroupResult(group_id=group_id, error_code=error)
        )
    return encode_response(DeleteGroupsResponse(results=results), version)
