"""DescribeTopicPartitions v0: topics and partitions page by page (KIP-966).

Behaviour
- Topics are sorted by name and begin at the cursor; a request without topics means all. When the
  limit of partitions is reached, the response's cursor says where to go on.
- A named topic that the client may not DESCRIBE is TOPIC_AUTHORIZATION_FAILED, after the others; if the
  request names none, such topics are left out. The authorized operations are always sent.
- A cursor with a negative partition, or with a topic that the request does not name, is
  INVALID_REQUEST for every named topic.
- A named topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, an illegal name
  INVALID_TOPIC_EXCEPTION; nothing is created.
- As in Metadata, no answer names a leader in an older epoch than this gateway has named before.
- A partition whose leader does not have the client's listener is LISTENER_NOT_FOUND.
- Java's `describeTopics` asks this API first and falls back to Metadata.

Deviations
- If the request names no topics, a bad cursor is INVALID_REQUEST for the cursor's topic, as the
  response has no error code of its own; Kafka's answer is then empty.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from highwater.gateway.handling.authorization import denied_topics, topic_operations
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.routing.brokers import live_brokers, no_leader_code, nodes_without
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, NodeId
from highwater.model.topic_names import invalid_topic_name

PARTITIONS_MAX: Final = 2_000
"""Kafka's max.request.partition.size.limit."""

_Topic = DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic


async def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Answers from the newest image."""
    if _is_bad_cursor(request):
        return failure(request, context.api_version, ErrorCode.INVALID_REQUEST)
    image = context.backend.image
    told = context.backend.routing.ahead
    entrance = context.peer.entrance
    live = {broker.node_id for broker in live_brokers(image, entrance)}
    lacking = nodes_without(image, entrance)
    left = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    topics: list[_Topic] = []
    cursor: DescribeTopicPartitionsResponseCursor | None = None
    wanted = dict(_names(context, request))
    denied = denied_topics(context, AclOperation.DESCRIBE, wanted)
    for name, first in wanted.items():
        if name in denied:
            continue
        if left <= 0:
            cursor = DescribeTopicPartitionsResponseCursor(name, first)
            break
        state = image.topic(name, context.peer.instance)
        if state is None:
            operations = topic_operations(context, name)
            topics.append(
                _Topic(
                    error_code=_why_missing(name),
                    name=name,
                    topic_authorized_operations=operations,
                )
            )
            continue
        page = state.partitions[first : first + left]
        topics.append(
            _Topic(
                name=name,
                topic_id=state.topic_id,
                is_internal=state.internal,
                partitions=[
                    _partition(one, live, lacking, told.get((state.topic_id, one.partition), -1))
                    for one in page
                ],
                topic_authorized_operations=topic_operations(context, name),
            )
        )
        left -= len(page)
        if first + len(page) < len(state.partitions):
            cursor = DescribeTopicPartitionsResponseCursor(name, first + len(page))
            break
    if request.topics:
        topics += _refused(name for name in wanted if name in denied)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def failure(
    request: DescribeTopicPartitionsRequest, _version: int, code: int
) -> DescribeTopicPartitionsResponse:
    """The code for every named topic, or for the cursor's if the request names none."""
    names = [topic.name for topic in request.topics]
    if not names and request.cursor is not None:
        names = [request.cursor.topic_name]
    return DescribeTopicPartitionsResponse(
        topics=[_Topic(error_code=code, name=name) for name in names]
    )


def _refused(names: Iterable[str]) -> list[_Topic]:
    """Says nothing about whether the topics exist."""
    return [_Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name) for name in names]


def _is_bad_cursor(request: DescribeTopicPartitionsRequest) -> bool:
    """Kafka: `DescribeTopicPartitionsRequestHandler`."""
    cursor = request.cursor
    if cursor is None:
        return False
    named = {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or bool(named and cursor.topic_name not in named)


def _names(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Iterator[tuple[str, int]]:
    """The topics' names in order, each with the first partition that is wanted."""
    instance = context.peer.instance
    names = {topic.name for topic in request.topics} or {
        name for owner, name in context.backend.image.topic_ids if owner == instance
    }
    cursor = request.cursor
    for name in sorted(names):
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, cursor.partition_index


def _why_missing(name: str) -> ErrorCode:
    if invalid_topic_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    state: PartitionState, live: set[NodeId], lacking: set[NodeId], told_epoch: int
) -> DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition:
    led = state.leader in live and told_epoch <= state.leader_epoch  # As Metadata does.
    return DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if led else no_leader_code(state.leader, lacking),
        partition_index=state.partition,
        leader_id=state.leader if led else NO_NODE,
        leader_epoch=max(state.leader_epoch, told_epoch),
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible_leaders,
        last_known_elr=(),
        offline_replicas=[node for node in state.replicas if node not in live],
    )
