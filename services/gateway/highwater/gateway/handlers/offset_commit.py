"""OffsetCommit v2-8: stores the committed offsets of a group.

Behaviour
- Without READ on the group all partitions are GROUP_AUTHORIZATION_FAILED, without READ on a topic
  its partitions TOPIC_AUTHORIZATION_FAILED.
- The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
  others to the coordinator (Kafka: `KafkaApis.handleOffsetCommitRequest`).
- If all partitions exist and are allowed, the body is sent on unchanged. An error of the whole call is repeated for
  every partition, since the response has no top-level code.

Version notes
- v2-4: retention time. v3: throttle time. v6: leader epoch. v7: static members. v8: flexible.
- v9 is the same with the next generation of groups (KIP-848), v10 names topics by id.
"""

from collections.abc import Sequence

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.known_partitions import forward_known, split_partitions, unreadable
from highwater.kafka.messages import offset_commit as codec
from highwater.model.acl_operations import AclOperation

_Topic = codec.OffsetCommitResponseOffsetCommitResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    return await forward_known(
        context,
        body,
        operation=AclOperation.READ,
        codec=codec,
        take_refused=_take_refused,
        add_refused=_add_refused,
        failure=failure,
        response_type=codec.OffsetCommitResponse,
    )


def _take_refused(context: RequestContext, request: codec.OffsetCommitRequest) -> list[_Topic]:
    """Takes partitions that are unknown or denied out of the request; returns their answers."""
    refused, known = [], []
    denied = unreadable(context, request.topics)
    for topic in request.topics:
        there, others, code = split_partitions(context, topic.name, topic.partitions, denied)
        if others:
            refused.append(_answer(topic.name, others, code))
            topic.partitions = there
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _add_refused(response: codec.OffsetCommitResponse, refused: list[_Topic]) -> None:
    response.topics = [*response.topics, *refused]


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
