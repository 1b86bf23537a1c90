"""New and growing topics, from messages to what decisions take."""

from collections.abc import Iterable

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_topics import Growth
from highwater.controller.core.create_topics import TopicWish
from highwater.model.ids import TopicId


def topic_wish(message: pb.NewTopic) -> TopicWish:
    """One topic of CreateTopics."""
    return TopicWish(
        name=message.name,
        partitions=message.partitions,
        replication_factor=message.replication_factor,
        assignments=_assignments(message.assignments),
        configs=dict(message.configs),
        internal=message.internal,
    )


def growth(message: pb.TopicGrowth) -> Growth:
    """One topic of CreatePartitions."""
    return Growth(
        topic_id=TopicId(message.topic_id),
        count=message.count,
        assignments=_assignments(message.assignments),
    )


def _assignments(messages: Iterable[pb.Assignment]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((message.partition, tuple(message.replicas)) for message in messages)
