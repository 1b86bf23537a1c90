"""DescribeGroups v0-6 (key 15).

* An unknown group is "Dead" without an error up to v5, GROUP_ID_NOT_FOUND from v6 (KIP-1043).
* v3: if the client asks for authorized operations, a group has all of them, as in a Kafka
  without an authorizer; a group with an error has none.
"""

from collections.abc import Callable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.error_messages import shortened
from highwater.kafka.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
    decode_request,
    encode_response,
)
from highwater.model.acl_operations import GROUP_OPERATIONS, NOT_ASKED
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.state import DEAD
from highwater.partition.groups.core.values import GroupKey

_NOT_FOUND_FROM = 6


def handle(
    shard_of: Callable[[str], GroupCoordinatorShard | ErrorCode], call: CoordinatorCall
) -> bytes:
    """Describe each group, or give its error."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    operations = GROUP_OPERATIONS if body.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in body.groups:
        shard = shard_of(group_id)
        if isinstance(shard, ErrorCode):
            group = DescribeGroupsResponseDescribedGroup(group_id=group_id, error_code=shard)
        else:
            group = _describe(shard, GroupKey(call.instance, group_id), version)
            if not group.error_code:
                group.authorized_operations = operations
        groups.append(group)
    return encode_response(DescribeGroupsResponse(groups=groups), version)


def _describe(
    shard: GroupCoordinatorShard, key: GroupKey, version: int
) -> DescribeGroupsResponseDescribedGroup:
    described = shard.describe_group(key)
    if described is None:
        group = DescribeGroupsResponseDescribedGroup(group_id=key.group_id, group_state=DEAD.value)
        if version >= _NOT_FOUND_FROM:
            group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            group.error_message = shortened(f"Group {key.group_id} not found.")
        return group
    return DescribeGroupsResponseDescribedGroup(
        group_id=key.group_id,
        group_state=described.state,
        protocol_type=described.protocol_type,
        protocol_data=described.protocol,
        members=[
            DescribeGroupsResponseDescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata,
                member_assignment=m.assignment,
            )
            for m in described.members
        ],
    )
