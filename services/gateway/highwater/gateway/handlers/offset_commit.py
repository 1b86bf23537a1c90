"""OffsetCommit v2-8: stores the committed offsets of a group.

Behaviour
- The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
  others to the coordinator (Kafka: `KafkaApis.handleOffsetCommitRequest`).
- If all partitions exist, the body is sent on unchanged. An error of the whole call is repeated for
  every partition, since the response has no top-level code.

Version notes
- v2-4: retention time. v3: throttle time. v6: leader epoch. v7: static members. v8: flexible.
- v9 is the same with the next generation of groups (KIP-848), v10 names topics by id.
"""

from collections.abc import Sequence

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.known_partitions import forward_known, split_partitions
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_commit as codec

_Topic = codec.OffsetCommitResponseOffsetCommitResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    return await forward_known(
        context,
        body,
        codec=codec,
        take_unknown=_take_unknown,
        add_unknown=_add_unknown,
        failure=failure,
        response_type=codec.OffsetCommitResponse,
    )


def _take_unknown(context: RequestContext, request: codec.OffsetCommitRequest) -> list[_Topic]:
    """Takes the partitions that do not exist out of the request; returns their answers."""
    unknown, known = [], []
    for topic in request.topics:
        there, gone = split_partitions(context, topic.name, topic.partitions)
        if gone:
            unknown.append(_answer(topic.name, gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = there
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return unknown


def _add_unknown(response: codec.OffsetCommitResponse, unknown: list[_Topic]) -> None:
    response.topics = [*response.topics, *unknown]


def _answer(
    name: str,
    partitions: Sequence[codec.OffsetCommitRequestOffsetCommitRequestPartition],
    code: int,
) -> _Topic:
    return _Topic(
        name=name,
        partitions=[
            codec.OffsetCommitResponseOffsetCommitResponsePartition(one.partition_index, code)
            for one in partitions
        ],
    )


def failure(
    request: codec.OffsetCommitRequest, _version: int, code: int
) -> codec.OffsetCommitResponse:
    """The code for every partition."""
    return codec.OffsetCommitResponse(
        topics=[_answer(topic.name, topic.partitions, code) for topic in request.topics]
    )
