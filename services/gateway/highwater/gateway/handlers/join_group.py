"""JoinGroup v0-9: a member enters a group, or a rebalance of it.

Behaviour
- Without READ on the group: GROUP_AUTHORIZATION_FAILED.
- The group's coordinator decides everything else; the body passes through undecoded.
- The call lasts as long as the rebalance: at most the larger of the request's two timeouts and some
  slack, as clients wait (Java: JOIN_GROUP_TIMEOUT_LAPSE). If the client disconnects before, the
  coordinator forgets the call.

Version notes
- v0: the session timeout is the rebalance timeout too. v4: a new member must join again with the id
  it gets (KIP-394). v5: static members. v6: flexible. v7: protocol type. v8: reason. v9: skip assignment.
- 0 and 1 must stay listed for librdkafka before 2.11 (KAFKA-19444).
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id, read_int32
from highwater.kafka.messages import join_group as codec

REBALANCE_TIMEOUT_FROM: Final = 1
NULL_PROTOCOL_FROM: Final = 7
SLACK_MS: Final = 10_000
WAIT_MS_MAX: Final = 2**31 - 1
"""The largest int32: some applications set max.poll.interval.ms, the rebalance timeout, to it."""


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    version = context.api_version
    group_id, pos = read_group_id(body, flexible=version >= codec.FLEXIBLE_FROM)
    wait_ms, pos = read_int32(body, pos)
    if version >= REBALANCE_TIMEOUT_FROM:
        rebalance_ms, pos = read_int32(body, pos)
        wait_ms = max(wait_ms, rebalance_ms)
    deadline_ms = min(max(wait_ms, 0) + SLACK_MS, WAIT_MS_MAX)
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(_request: codec.JoinGroupRequest, version: int, code: int) -> codec.JoinGroupResponse:
    """As Kafka's JoinGroupRequest.getErrorResponse: no member, no generation."""
    return codec.JoinGroupResponse(
        error_code=code, protocol_name=None if version >= NULL_PROTOCOL_FROM else ""
    )
