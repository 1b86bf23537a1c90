"""ConsumerGroupDescribe v0-1 (key 69).

* A group that does not exist, or is a classic one, is GROUP_ID_NOT_FOUND.
* v1 has the type of each member: 0 for the classic protocol, 1 for the consumer protocol.
"""

from collections.abc import Callable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.error_messages import shortened
from highwater.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
    decode_request,
    encode_response,
)
from highwater.partition.groups.consumer.requests import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey

_CLASSIC = 0
_CONSUMER = 1


def handle(
    shard_of: Callable[[str], GroupCoordinatorShard | ErrorCode], call: CoordinatorCall
) -> bytes:
    """Describe each group, in the order of the request."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    groups = []
    for group_id in body.group_ids:
        shard = shard_of(group_id)
        if isinstance(shard, ErrorCode):
            groups.append(_failed(group_id, shard, None))
            continue
        key = GroupKey(call.instance, group_id)
        described = shard.describe_consumer_group(key)
        if described is not None:
            groups.append(_group(group_id, described))
        else:
            is_classic = shard.describe_group(key) is not None
            what = "is not a consumer group" if is_classic else "not found"
            message = shortened(f"Group {group_id} {what}.")
            groups.append(_failed(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message))
    return encode_response(ConsumerGroupDescribeResponse(groups=groups), version)


def _failed(
    group_id: str, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponseDescribedGroup:
    return ConsumerGroupDescribeResponseDescribedGroup(
        error_code=code, error_message=message, group_id=group_id
    )


def _group(
    group_id: str, group: DescribedConsumerGroup
) -> ConsumerGroupDescribeResponseDescribedGroup:
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(member) for member in group.members],
    )


def _member(member: DescribedConsumerMember) -> ConsumerGroupDescribeResponseMember:
    metadata = member.metadata
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=sorted(metadata.topic_names),
        subscribed_topic_regex=metadata.topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target),
        member_type=_CONSUMER if metadata.classic is None else _CLASSIC,
    )


def _assignment(
    assignment: tuple[tuple[bytes, str, tuple[int, ...]], ...],
) -> ConsumerGroupDescribeResponseAssignment:
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(topic_id, name, partitions)
            for topic_id, name, partitions in assignment
        ]
    )
