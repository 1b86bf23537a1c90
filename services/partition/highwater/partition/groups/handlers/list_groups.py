"""ListGroups v0-5 (key 16).

* v4 filters by state (KIP-518), v5 by type (KIP-848): "classic" or "consumer".
* The answer covers the partitions that this node leads, as in Kafka. While one of them is being
  loaded, it has COORDINATOR_LOAD_IN_PROGRESS beside the groups that are known.
"""

from collections.abc import Iterable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_groups import (
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
    decode_request,
    encode_response,
)
from highwater.partition.groups.core.shard import GroupCoordinatorShard


def handle(
    shards: Iterable[GroupCoordinatorShard], call: CoordinatorCall, *, loading: bool
) -> bytes:
    """The instance's groups in all of `shards`."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    groups = [
        ListGroupsResponseListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.group_type,
        )
        for shard in shards
        for group in shard.list_groups(
            call.instance, list(body.states_filter), list(body.types_filter)
        )
    ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
    return encode_response(ListGroupsResponse(error_code=error, groups=groups), version)
