"""OffsetCommit v2-8: a group's positions are written down.

Behaviour
- The group's coordinator decides; the body passes through. An error of the call as a whole is told
  for every partition, since the response has no place for it elsewhere.

Version notes
- v2-4: retention time. v3: throttle time. v6: leader epoch. v7: static members. v8: flexible.
- v9 is the same with the next generation of groups (KIP-848), v10 names topics by id.
"""

from highwater.gateway.handlers.context import RequestContext
from highwater.gateway.handlers.coordinators import forward
from highwater.gateway.handlers.group_id import read_group_id
from highwater.kafka.messages import offset_commit as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator."""
    flexible = context.api_version >= codec.FLEXIBLE_FROM
    group_id, _ = read_group_id(body, flexible=flexible)
    deadline_ms = context.backend.settings.request_timeout_ms
    return await forward(
        context, body, group_id, codec=codec, failure=failure, deadline_ms=deadline_ms
    )


def failure(
    request: codec.OffsetCommitRequest, _version: int, code: int
) -> codec.OffsetCommitResponse:
    """The code for every partition."""
    return codec.OffsetCommitResponse(
        topics=[
            codec.OffsetCommitResponseOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    codec.OffsetCommitResponseOffsetCommitResponsePartition(
                        partition.partition_index, code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
