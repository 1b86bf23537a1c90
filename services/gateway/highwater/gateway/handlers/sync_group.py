"""SyncGroup v0-5: the group's leader sends the assignments, and every member gets its own.

Behaviour
- From v5 on a request without protocol type and name is INCONSISTENT_GROUP_PROTOCOL, whoever sends it
  (Kafka: `SyncGroupRequest.areMandatoryProtocolTypeAndNamePresent`).
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
from highwater.gateway.handling.group_id import read_group_id, read_int32
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import TruncatedError
from highwater.kafka.messages import sync_group as codec
from highwater.kafka.primitives import read_uvarint

PROTOCOL_FROM: Final = 5
WAIT_MS: Final = 300_000
"""Kafka's default of max.poll.interval.ms; the true limit is the group's rebalance timeout."""


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    version = context.api_version
    group_id, pos = read_group_id(body, flexible=version >= codec.FLEXIBLE_FROM)
    if version >= PROTOCOL_FROM and not _names_its_protocol(body, pos):
        request = codec.decode_request(body, 0, version)
        refused = failure(request, version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return codec.encode_response(refused, version)
    return await forward(context, body, group_id, codec=codec, failure=failure, deadline_ms=WAIT_MS)


def failure(_request: codec.SyncGroupRequest, _version: int, code: int) -> codec.SyncGroupResponse:
    """No assignment."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return codec.SyncGroupResponse(error_code=code)


def _names_its_protocol(body: memoryview, pos: int) -> bool:
    """Whether neither is null, from the generation on. The assignments behind them stay undecoded: there
    may be one for each of thousands of members.
    """
    _, pos = read_int32(body, pos)
    lengths = []
    try:
        for _ in ("member id", "instance id", "protocol type", "protocol name"):
            length, pos = read_uvarint(body, pos)
            lengths.append(length)
            pos += max(0, length - 1)
    except IndexError as error:
        raise TruncatedError("request ends early") from error
    return bool(lengths[2] and lengths[3])
