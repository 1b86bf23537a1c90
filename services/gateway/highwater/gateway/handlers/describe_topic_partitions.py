"""DescribeTopicPartitions v0: topics and partitions page by page (KIP-966).

Behaviour
- Topics in the order of their names, from the cursor on; no topics in the request means all. When
  the limit of partitions is reached, the next cursor says where to go on.
- A named topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, an illegal name
  INVALID_TOPIC_EXCEPTION; nothing is created.
- As in Metadata, nobody is told of a leader in an older epoch than this gateway has told of before.
- Java's `describeTopics` asks this API first and falls back to Metadata.
"""

from collections.abc import Iterator
from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.operations import TOPIC_OPERATIONS
from highwater.gateway.routing.brokers import visible_brokers
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseDescribeTopicPartitionsResponseTopic,
)
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
    image = context.backend.image
    told = context.backend.routing.ahead
    brokers = visible_brokers(image)
    reachable = {broker.node_id for broker in brokers}
    live = {broker.node_id for broker in brokers if not broker.fenced}
    left = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    topics: list[_Topic] = []
    cursor: DescribeTopicPartitionsResponseCursor | None = None
    for name, first in _names(context, request):
        if left <= 0:
            cursor = DescribeTopicPartitionsResponseCursor(name, first)
            break
        state = image.topic(name, context.peer.instance)
        if state is None:
            topics.append(_Topic(error_code=_why_missing(name), name=name))
            continue
        page = state.partitions[first : first + left]
        topics.append(
            _Topic(
                name=name,
                topic_id=state.topic_id,
                is_internal=state.internal,
                partitions=[
                    _partition(one, reachable, live, told.get((state.topic_id, one.partition), -1))
                    for one in page
                ],
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        left -= len(page)
        if first + len(page) < len(state.partitions):
            cursor = DescribeTopicPartitionsResponseCursor(name, first + len(page))
            break
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def failure(
    request: DescribeTopicPartitionsRequest, _version: int, code: int
) -> DescribeTopicPartitionsResponse:
    """The code for every topic that was named."""
    return DescribeTopicPartitionsResponse(
        topics=[_Topic(error_code=code, name=topic.name) for topic in request.topics]
    )


def _names(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Iterator[tuple[str, int]]:
    """Topic names in order with the first partition wanted of each."""
    instance = context.peer.instance
    names = {topic.name for topic in request.topics} or {
        name for owner, name in context.backend.image.topic_ids if owner == instance
    }
    cursor = request.cursor
    for name in sorted(names):
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, max(cursor.partition_index, 0)


def _why_missing(name: str) -> ErrorCode:
    if invalid_topic_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    state: PartitionState, reachable: set[NodeId], live: set[NodeId], told_epoch: int
) -> DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition:
    led = state.leader in reachable and told_epoch <= state.leader_epoch  # As Metadata does.
    return DescribeTopicPartitionsResponseDescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.partition,
        leader_id=state.leader if led else NO_NODE,
        leader_epoch=max(state.leader_epoch, told_epoch),
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible_leaders,
        last_known_elr=(),
        offline_replicas=[node for node in state.replicas if node not in live],
    )
