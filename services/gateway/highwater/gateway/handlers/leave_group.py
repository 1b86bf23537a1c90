"""LeaveGroup v0-5: members leave; from v3 on several at once, also by instance id (KIP-345).

Behaviour
- Without READ on the group: GROUP_AUTHORIZATION_FAILED.

Version notes
- v1: throttle time. v3: batches. v4: flexible. v5: reason (KIP-800).
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id
from highwater.kafka.messages import leave_group as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    flexible = context.api_version >= codec.FLEXIBLE_FROM
    group_id, _ = read_group_id(body, flexible=flexible)
    deadline_ms = context.backend.settings.request_timeout_ms
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(
    _request: codec.LeaveGroupRequest, _version: int, code: int
) -> codec.LeaveGroupResponse:
    """The code at the top, without members."""
    return codec.LeaveGroupResponse(error_code=code)
