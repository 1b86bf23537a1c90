"""SyncGroup v0-5: the group's leader sends the assignments, and every member gets its own.

Behaviour
- Without READ on the group: GROUP_AUTHORIZATION_FAILED.
- Members wait at the coordinator until the leader has sent them or the rebalance times out.
- COORDINATOR_LOAD_IN_PROGRESS becomes REBALANCE_IN_PROGRESS: the rebalance is lost with the old
  coordinator's memory, and old clients do not expect the former code (Kafka: GroupCoordinator).

Version notes
- v3: static members. v4: flexible. v5: protocol type and name.
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import sync_group as codec

WAIT_MS: Final = 300_000
"""Kafka's default of max.poll.interval.ms; the true limit is the group's rebalance timeout."""


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    flexible = context.api_version >= codec.FLEXIBLE_FROM
    group_id, _ = read_group_id(body, flexible=flexible)
    return await forward(context, body, group_id, codec=codec, failure=failure, deadline_ms=WAIT_MS)


def failure(_request: codec.SyncGroupRequest, _version: int, code: int) -> codec.SyncGroupResponse:
    """No assignment."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return codec.SyncGroupResponse(error_code=code)
