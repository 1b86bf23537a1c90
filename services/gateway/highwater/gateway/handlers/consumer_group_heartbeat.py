"""ConsumerGroupHeartbeat v0-1: a member of a consumer group joins, reports and leaves (KIP-848).

Behaviour
- Without READ on the group: GROUP_AUTHORIZATION_FAILED. If the client may not DESCRIBE a topic that
  it names: TOPIC_AUTHORIZATION_FAILED.
- The group's coordinator decides everything else; the body passes through undecoded. With it goes which
  topics the client may DESCRIBE: a regular expression matches no others (KAFKA-18813).

Version notes
- v1: regular expressions, and member ids that clients make themselves (KIP-1082).
"""

from highwater.gateway.handling.authorization import allowed_on_group, denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import consumer_group_heartbeat as codec
from highwater.model.acl_operations import AclOperation


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    group_id, _ = read_group_id(body, flexible=True)
    deadline_ms = context.backend.settings.request_timeout_ms
    code = _denial(context, body, group_id)
    if code is not ErrorCode.NONE:
        response = codec.ConsumerGroupHeartbeatResponse(error_code=code)
        return codec.encode_response(response, context.api_version)
    return await forward(
        context,
        body,
        group_id,
        operation=None,
        codec=codec,
        failure=failure,
        deadline_ms=deadline_ms,
    )


def _denial(context: RequestContext, body: memoryview, group_id: str) -> ErrorCode:
    if context.backend.authorizer.allows_all:
        return ErrorCode.NONE
    if not allowed_on_group(context, AclOperation.READ, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    names = codec.decode_request(body, 0, context.api_version).subscribed_topic_names or ()
    denied = denied_topics(context, AclOperation.DESCRIBE, names)
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if denied else ErrorCode.NONE


def failure(
    _request: codec.ConsumerGroupHeartbeatRequest, _version: int, code: int
) -> codec.ConsumerGroupHeartbeatResponse:
    """As Kafka's ConsumerGroupHeartbeatRequest.getErrorResponse."""
    return codec.ConsumerGroupHeartbeatResponse(error_code=code)
