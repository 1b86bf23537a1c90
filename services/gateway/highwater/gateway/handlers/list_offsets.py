"""ListOffsets v1-11, v0 with `old_message_formats`: finds offsets by timestamps, special or not.

Behaviour
- Leaders answer; each is asked once, and answers come back in the order of the request.
- Special timestamps: -1 latest (last stable offset if read_committed), -2 earliest, -3 the largest
  timestamp (v7+), -4 earliest local (v8+), -5 latest tiered (v9+), -6 earliest pending upload (v11+).
  In a version that does not have it, a special timestamp is UNSUPPORTED_VERSION for that partition.
  There is no tier: -4 is -2, and -5 and -6 have no offset.
- Without DESCRIBE on a topic its partitions are TOPIC_AUTHORIZATION_FAILED.
- A duplicate partition is INVALID_REQUEST.
- The client's leader epoch (v4+) goes to the leader unchanged (decision 15).
- Until a new leader's high watermark reaches the start of its epoch, the answer is
  OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE (Kafka: KafkaApis.handleListOffsetRequest).

Version notes
- v0: several offsets before a time (`handling.old_offsets`). v2: isolation level. v4: leader epochs.
  v5: OFFSET_NOT_AVAILABLE. v6: flexible. v10: a timeout for offsets in a tier (KIP-1075), which is not
  used. v11: timestamp -6 (KIP-1023).
"""

from collections.abc import Sequence
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.gateway.handling.old_offsets import offsets_before
from highwater.hop.fetch import READ_COMMITTED
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsResponse,
    ListOffsetsResponseListOffsetsPartitionResponse,
    ListOffsetsResponseListOffsetsTopicResponse,
)
from highwater.model.acl_operations import AclOperation

_SPECIAL_FROM: Final = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""First version of each special timestamp (Kafka: ReplicaManager.timestampMinSupportedVersion)."""

OFFSET_NOT_AVAILABLE_FROM: Final = 5

_Answer = ListOffsetsResponseListOffsetsPartitionResponse


async def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Asks the leaders."""
    if context.api_version == 0:
        return await offsets_before(context, request, _one_offset_each)
    return await _one_offset_each(context, request)


async def _one_offset_each(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    answers: dict[tuple[int, int], _Answer] = {}
    questions: list[Routed[pb.ListOffsetsPartition]] = []
    places: list[tuple[int, int]] = []
    twice = _twice(request)
    names = (topic.name for topic in request.topics)
    denied = denied_topics(context, AclOperation.DESCRIBE, names)
    for t, topic in enumerate(request.topics):
        for p, wanted in enumerate(topic.partitions):
            index = wanted.partition_index
            routed: Routed[pb.ListOffsetsPartition] | ErrorCode
            if topic.name in denied:
                routed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif (topic.name, index) in twice:
                routed = ErrorCode.INVALID_REQUEST
            else:
                routed = _question(context, topic.name, wanted)
            if isinstance(routed, Routed):
                questions.append(routed)
                places.append((t, p))
            else:
                answers[t, p] = _Answer(index, routed)

    timeout_s = context.backend.settings.request_timeout_ms / 1000

    async def ask(
        link: NodeLink, partitions: list[pb.ListOffsetsPartition]
    ) -> Sequence[pb.ListOffsetsResult]:
        asked = pb.ListOffsetsRequest(
            instance=context.peer.instance,
            isolation_level=int(request.isolation_level == READ_COMMITTED),
            partitions=partitions,
        )
        return (await link.list_offsets(asked, timeout_s)).results

    results = await ask_leaders(context, questions, ask, _failed)
    for (t, p), result in zip(places, results, strict=True):
        answers[t, p] = _Answer(
            request.topics[t].partitions[p].partition_index,
            _code(result.error_code, context.api_version),
            timestamp=result.timestamp,
            offset=result.offset,
            leader_epoch=result.leader_epoch,
        )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseListOffsetsTopicResponse(
                topic.name, [answers[t, p] for p in range(len(topic.partitions))]
            )
            for t, topic in enumerate(request.topics)
        ]
    )


def failure(request: ListOffsetsRequest, _version: int, code: int) -> ListOffsetsResponse:
    """The code for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseListOffsetsTopicResponse(
                topic.name, [_Answer(asked.partition_index, code) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _question(
    context: RequestContext, topic: str, wanted: ListOffsetsRequestListOffsetsPartition
) -> Routed[pb.ListOffsetsPartition] | ErrorCode:
    timestamp = wanted.timestamp
    if timestamp < 0 and context.api_version < _SPECIAL_FROM.get(
        timestamp, context.api_version + 1
    ):
        return ErrorCode.UNSUPPORTED_VERSION
    way = route_of(context, topic, wanted.partition_index)
    if isinstance(way, ErrorCode):
        return way
    route, link = way
    return Routed(
        link,
        pb.ListOffsetsPartition(
            topic_id=route.topic_id,
            partition=route.partition,
            current_leader_epoch=wanted.current_leader_epoch,
            timestamp=timestamp,
        ),
    )


def _code(code: int, version: int) -> int:
    if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code


def _failed(code: int) -> pb.ListOffsetsResult:
    return pb.ListOffsetsResult(error_code=code, timestamp=-1, offset=-1, leader_epoch=-1)


def _twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    """Partitions that the request names more than once."""
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            place = (topic.name, wanted.partition_index)
            (twice if place in seen else seen).add(place)
    return twice
