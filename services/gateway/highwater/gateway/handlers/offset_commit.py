"""OffsetCommit v2-10: stores the committed offsets of a group.

Behaviour
- Without READ on the group all partitions are GROUP_AUTHORIZATION_FAILED, without READ on a topic
  its partitions TOPIC_AUTHORIZATION_FAILED.
- The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
  others to the coordinator (Kafka: `KafkaApis.handleOffsetCommitRequest`).
- If all partitions exist and are allowed, the body is sent on unchanged. An error of the whole call is repeated for
  every partition, since the response has no top-level code.
- v10 names topics by id. Coordinators keep offsets by topic name, so they get v9: the gateway maps
  ids to names and back. An unknown id, or one of another instance, is UNKNOWN_TOPIC_ID.

Version notes
- v2-4: retention time. v3: throttle time. v6: leader epoch. v7: static members. v8: flexible.
- v9 has the epochs of members of consumer groups (KIP-848), and another code for a group that does
  not exist, GROUP_ID_NOT_FOUND. v10: topics by id.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.known_partitions import forward_known, split_partitions, unreadable
from highwater.gateway.handling.topics_by_id import topic_by_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_commit as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import NO_TOPIC_ID

BY_ID_FROM: Final = 10
BY_NAME_LAST: Final = 9
"""The coordinator's version of a request that names topics by id."""

_Asked = codec.OffsetCommitRequestOffsetCommitRequestTopic
_Topic = codec.OffsetCommitResponseOffsetCommitResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    ids: dict[str, bytes] = {}
    return await forward_known(
        context,
        body,
        operation=AclOperation.READ,
        codec=codec,
        take_refused=partial(_take_refused, ids),
        add_refused=partial(_add_refused, ids),
        failure=failure,
        response_type=codec.OffsetCommitResponse,
        inside=BY_NAME_LAST if context.api_version >= BY_ID_FROM else None,
    )


def _take_refused(
    ids: dict[str, bytes], context: RequestContext, request: codec.OffsetCommitRequest
) -> list[_Topic]:
    """Takes partitions that are unknown or denied out of the request; returns their answers.

    Topics that are named by id get their names; `ids` gets the ids.
    """
    refused: list[_Topic] = []
    known: list[_Asked] = []
    topics: Sequence[_Asked] = request.topics
    if context.api_version >= BY_ID_FROM:
        refused, topics = _resolve(ids, context, topics)
    denied = unreadable(context, topics)
    for topic in topics:
        there, others, code = split_partitions(context, topic.name, topic.partitions, denied)
        if others:
            refused.append(_answer(topic, others, code))
            topic.partitions = there
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _resolve(
    ids: dict[str, bytes], context: RequestContext, topics: Sequence[_Asked]
) -> tuple[list[_Topic], list[_Asked]]:
    """Returns the answers for unknown ids, and the other topics with their names."""
    unknown: list[_Topic] = []
    known: list[_Asked] = []
    for topic in topics:
        state = topic_by_id(context, topic.topic_id)
        if state is None:
            unknown.append(_answer(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = state.name
            ids[topic.name] = topic.topic_id
            known.append(topic)
    return unknown, known


def _add_refused(
    ids: Mapping[str, bytes], response: codec.OffsetCommitResponse, refused: list[_Topic]
) -> None:
    for topic in response.topics:
        topic.topic_id = ids.get(topic.name, NO_TOPIC_ID)
    response.topics = [*response.topics, *refused]


def _answer(
    topic: _Asked,
    partitions: Sequence[codec.OffsetCommitRequestOffsetCommitRequestPartition],
    code: int,
) -> _Topic:
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id,
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
        topics=[_answer(topic, topic.partitions, code) for topic in request.topics]
    )
