"""ConsumerGroupHeartbeat v0-1 (key 68).

* The error message is Kafka's; the gateway makes answers for calls that reach no shard.
* v1 has regular expressions, and members make their ids themselves (KIP-1082).
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
    decode_request,
    encode_response,
)
from highwater.model.ids import TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignment import assignment_of
from highwater.partition.groups.consumer.requests import HeartbeatRequest
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey

_OWN_MEMBER_ID_FROM = 1
_UNCHANGED = -1


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Handle the heartbeat; the response is sent when the records are committed."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    host, timeout_ms = call.client_host, body.rebalance_timeout_ms
    owned = body.topic_partitions
    names = body.subscribed_topic_names
    request = HeartbeatRequest(
        key=GroupKey(call.instance, body.group_id),
        member_id=body.member_id,
        epoch=body.member_epoch,
        client_id=call.client_id,
        # Kafka stores and shows addresses in Java's form.
        client_host=host if host.startswith("/") else f"/{host}",
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _UNCHANGED else timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=None
        if owned is None
        else assignment_of((TopicId(t.topic_id), p) for t in owned for p in t.partitions),
        view=call.view,
        makes_its_id=version >= _OWN_MEMBER_ID_FROM,
    )
    response = shard.consumer_heartbeat(request, now)
    assignment = response.assignment
    return encode_response(
        ConsumerGroupHeartbeatResponse(
            error_code=response.error,
            error_message=response.message,
            member_id=response.member_id,
            member_epoch=response.epoch,
            heartbeat_interval_ms=response.interval_ms,
            assignment=None
            if assignment is None
            else ConsumerGroupHeartbeatResponseAssignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponseTopicPartitions(topic_id, partitions)
                    for topic_id, partitions in assignment.items()
                ]
            ),
        ),
        version,
    )
