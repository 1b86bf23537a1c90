"""OffsetFetch v1-8: returns the committed offsets of groups.

Behaviour
- For one group the body passes undecoded to its coordinator. v8 may name several (KIP-709): each
  goes to its own coordinator, and the results come back in the order of the request.
- An error of the whole call is at the group from v2 on, in v1 at each partition.

Version notes
- v2: all topics (null), top-level error. v3: throttle time. v5: leader epoch. v6: flexible.
  v7: require stable. v8: several groups.
- v9 is the same with the next generation of groups (KIP-848), v10 names topics by id.
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.gateway.handling.group_id import read_count, read_group_id
from highwater.kafka.messages import offset_fetch as codec
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponseTopic,
)

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8

_AskedGroup = OffsetFetchRequestOffsetFetchRequestGroup
_Group = OffsetFetchResponseOffsetFetchResponseGroup


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator, or each group to its own."""
    version = context.api_version
    deadline_ms = context.backend.settings.request_timeout_ms
    pos = 0
    if version >= GROUPS_FROM:
        count, pos = read_count(body)
        if count != 1:
            request = codec.decode_request(body, 0, version)
            return codec.encode_response(await _fetch_each(context, request), version)
    group_id, _ = read_group_id(body, flexible=version >= codec.FLEXIBLE_FROM, pos=pos)
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(request: OffsetFetchRequest, version: int, code: int) -> OffsetFetchResponse:
    """The code at the outermost place that the version has."""
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[_Group(group_id=group.group_id, error_code=code) for group in request.groups]
        )
    if version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseOffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponseOffsetFetchResponsePartition(
                        partition_index=partition, committed_offset=-1, error_code=code
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


async def _fetch_each(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    version = context.api_version

    def encode(groups: list[_AskedGroup]) -> bytes:
        part = OffsetFetchRequest(groups=groups, require_stable=request.require_stable)
        return codec.encode_request(part, version)

    groups = await ask_coordinators(
        context,
        request.groups,
        id_of=lambda group: group.group_id,
        encode=encode,
        decode=lambda body: codec.decode_response(body, 0, version).groups,
        failed=lambda group, code: _Group(group_id=group.group_id, error_code=code),
    )
    return OffsetFetchResponse(groups=groups)
