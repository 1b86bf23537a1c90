"""ListOffsets 0: offsets before a time, several of a partition, largest first (Kafka before 0.10.1).

- For a time it is the offset of the first record with that timestamp or a later one, as since version
  1, or the end of the log; behind it comes the start of the log, if the client wants more than one.

Deviations
- Kafka's ListOffsets 0 told the offsets at which the segments begin that were last written before the
  time: less exact, and one for each segment.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1

_Answer = ListOffsetsResponseListOffsetsPartitionResponse
_Place: TypeAlias = tuple[int, int]
"""Topic and partition in the request."""
_Ask: TypeAlias = Callable[[RequestContext, ListOffsetsRequest], Awaitable[ListOffsetsResponse]]


async def offsets_before(
    context: RequestContext, request: ListOffsetsRequest, ask: _Ask
) -> ListOffsetsResponse:
    """The answer of version 0; `ask` finds one offset for each partition, as version 1 does."""
    asked = {
        (t, p): wanted
        for t, topic in enumerate(request.topics)
        for p, wanted in enumerate(topic.partitions)
    }
    found = await _ask(context, request, {at: one.timestamp for at, one in asked.items()}, ask)
    beyond = [
        at for at, one in found.items() if not one.error_code and one.offset == NO_OFFSET
    ]  # No record has that timestamp or a later one.
    if beyond:
        found |= await _ask(context, request, dict.fromkeys(beyond, LATEST), ask)
    several = [
        at for at, one in found.items() if not one.error_code and asked[at].max_num_offsets > 1
    ]
    starts = {}
    if several:
        starts = await _ask(context, request, dict.fromkeys(several, EARLIEST), ask)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseListOffsetsTopicResponse(
                topic.name,
                [
                    _told(found[t, p], starts.get((t, p)), wanted.max_num_offsets)
                    for p, wanted in enumerate(topic.partitions)
                ],
            )
            for t, topic in enumerate(request.topics)
        ]
    )


async def _ask(
    context: RequestContext,
    request: ListOffsetsRequest,
    timestamps: Mapping[_Place, int],
    ask: _Ask,
) -> dict[_Place, _Answer]:
    """The answers for these places of the request, with these timestamps."""
    places: list[list[_Place]] = []
    topics = []
    for t, topic in enumerate(request.topics):
        here = [(t, p) for p in range(len(topic.partitions)) if (t, p) in timestamps]
        places.append(here)
        partitions = [
            ListOffsetsRequestListOffsetsPartition(
                partition_index=topic.partitions[p].partition_index, timestamp=timestamps[t, p]
            )
            for t, p in here
        ]
        topics.append(ListOffsetsRequestListOffsetsTopic(topic.name, partitions))
    response = await ask(context, ListOffsetsRequest(topics=topics))
    return {
        at: answer
        for here, topic in zip(places, response.topics, strict=True)
        for at, answer in zip(here, topic.partitions, strict=True)
    }


def _told(found: _Answer, start: _Answer | None, offsets_max: int) -> _Answer:
    if found.error_code:
        return _Answer(found.partition_index, found.error_code)
    offsets = [found.offset]
    if start is not None and not start.error_code and start.offset < found.offset:
        offsets.append(start.offset)
    return _Answer(found.partition_index, old_style_offsets=offsets[: max(0, offsets_max)])
