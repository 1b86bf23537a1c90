"""OffsetDelete v0: an administrator removes a group's offsets of some partitions (KIP-496)."""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_id import read_group_id
from highwater.kafka.messages import offset_delete as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    group_id, _ = read_group_id(body, flexible=False)
    deadline_ms = context.backend.settings.request_timeout_ms
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(
    _request: codec.OffsetDeleteRequest, _version: int, code: int
) -> codec.OffsetDeleteResponse:
    """The code for the whole."""
    return codec.OffsetDeleteResponse(error_code=code)
