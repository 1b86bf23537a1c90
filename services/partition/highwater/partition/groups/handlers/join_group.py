"""JoinGroup v0-9 (key 11).

* v0 has no rebalance timeout: the session timeout is used.
* Before v7 the protocol name cannot be null, so an error has an empty name.
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.join_group import (
    JoinGroupResponse,
    JoinGroupResponseJoinGroupResponseMember,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import GroupKey, JoinRequest, JoinResponse

_NULLABLE_PROTOCOL_FROM = 7
_KNOWN_MEMBER_ID_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9


def handle(shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment) -> None:
    """Pass the request to the shard; the answer comes as one of its replies."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    rebalance_timeout_ms = body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms
    host = call.client_host
    request = JoinRequest(
        key=GroupKey(call.instance, body.group_id),
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=call.client_id,
        # Kafka stores and shows addresses in Java's form.
        client_host=host if host.startswith("/") else f"/{host}",
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=max(rebalance_timeout_ms, 0),
        protocol_type=body.protocol_type,
        protocols=tuple((p.name, p.metadata) for p in body.protocols),
        requires_known_member_id=version >= _KNOWN_MEMBER_ID_FROM,
        supports_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    )
    shard.join_group(request, call, now)


def encode(response: JoinResponse, version: int) -> bytes:
    """Encode the response body in the client's version."""
    protocol = response.protocol
    if protocol is None and version < _NULLABLE_PROTOCOL_FROM:
        protocol = ""
    return encode_response(
        JoinGroupResponse(
            error_code=response.error,
            generation_id=response.generation,
            protocol_type=response.protocol_type,
            protocol_name=protocol,
            leader=response.leader,
            skip_assignment=response.skip_assignment,
            member_id=response.member_id,
            members=[
                JoinGroupResponseJoinGroupResponseMember(
                    member_id=m.member_id,
                    group_instance_id=m.instance_id,
                    metadata=m.metadata,
                )
                for m in response.members
            ],
        ),
        version,
    )
