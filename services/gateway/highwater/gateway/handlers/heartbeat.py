"""Heartbeat v0-4: a member reports that it lives, and learns of a rebalance.

Behaviour
- Without READ on the group: GROUP_AUTHORIZATION_FAILED.
- While the coordinator loads, the answer is success, so that the member does not leave the group
  (Kafka: GroupCoordinatorService.heartbeat).

Version notes
- v1: throttle time. v3: static members. v4: flexible.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import heartbeat as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    flexible = context.api_version >= codec.FLEXIBLE_FROM
    group_id, _ = read_group_id(body, flexible=flexible)
    deadline_ms = context.backend.settings.request_timeout_ms
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(_request: codec.HeartbeatRequest, _version: int, code: int) -> codec.HeartbeatResponse:
    """The code, except while the coordinator loads."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE
    return codec.HeartbeatResponse(error_code=code)
