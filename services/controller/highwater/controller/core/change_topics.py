"""CreatePartitions, DeleteTopics: changes to existing topics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from highwater.controller.core.change_instances import closed_instance
from highwater.controller.core.create_topics import (
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    check_assignment,
    new_partition,
    too_few_nodes,
    usable_racks,
)
from highwater.controller.core.instance_limits import PartitionAllowance
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal, unchanged
from highwater.controller.core.placement import RandomBelow, place_replicas, walk_start
from highwater.controller.core.reassign import target_replicas
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage, TopicState
from highwater.model.ids import InstanceId, NodeId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A topic's new total number of partitions, and optionally the replicas of the new ones."""

    topic_id: TopicId
    count: int
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()


def create_partitions(
    image: ClusterImage, instance: InstanceId, growths: Sequence[Growth], random_below: RandomBelow
) -> Decision[list[Refusal | None]]:
    """The larger topics; None in the result is success."""
    refused = closed_instance(image, instance) or _over_limit(image, growths)
    if refused is not None:
        return unchanged([refused] * len(growths))
    allowance = PartitionAllowance(image, instance)
    results: list[Refusal | None] = []
    grown: dict[TopicId, TopicState] = {}
    for growth in growths:
        topic = topic_of(image, instance, growth.topic_id)
        if isinstance(topic, Refusal):
            results.append(topic)
            continue
        if topic.topic_id in grown:
            results.append(_refusal(ErrorCode.INVALID_REQUEST, "the topic stands there twice"))
            continue
        larger = _grow(image, topic, growth, random_below)
        if isinstance(larger, TopicState) and not topic.internal:
            added = len(larger.partitions) - len(topic.partitions)
            larger = allowance.take(added, topic.name) or larger
        if isinstance(larger, TopicState):
            grown[topic.topic_id] = larger
            results.append(None)
        else:
            results.append(larger)
    delta = ClusterDelta(revision=PENDING_REVISION, topics=tuple(grown.values()))
    return Decision(delta=delta if grown else None, result=results)


def delete_topics(
    image: ClusterImage, instance: InstanceId, topic_ids: Sequence[TopicId]
) -> Decision[list[Refusal | None]]:
    """Removes topics with their partitions; None in the result is success."""
    results: list[Refusal | None] = []
    removed: set[TopicId] = set()
    for topic_id in topic_ids:
        topic = topic_of(image, instance, topic_id)
        if isinstance(topic, Refusal):
            results.append(topic)
        else:
            removed.add(topic_id)
            results.append(None)
    delta = ClusterDelta(revision=PENDING_REVISION, removed_topics=frozenset(removed))
    return Decision(delta=delta if removed else None, result=results)


def topic_of(image: ClusterImage, instance: InstanceId, topic_id: TopicId) -> TopicState | Refusal:
    """The instance's topic; topics of other instances are unknown to it."""
    topic = image.topics.get(topic_id)
    if topic is None or topic.instance != instance:
        return _refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id.hex()}")
    return topic


def _over_limit(image: ClusterImage, growths: Sequence[Growth]) -> Refusal | None:
    """Applies the limit of new topics: one request must not stop the controller's loop."""
    added = 0
    for growth in growths:
        topic = image.topics.get(growth.topic_id)
        if topic is not None and growth.count <= PARTITIONS_PER_TOPIC_MAX:
            added += max(0, growth.count - len(topic.partitions))
    if added <= PARTITIONS_PER_REQUEST_MAX:
        return None
    return _refusal(
        ErrorCode.POLICY_VIOLATION,
        f"a request may create {PARTITIONS_PER_REQUEST_MAX} partitions, not {added}",
    )


def _grow(
    image: ClusterImage, topic: TopicState, growth: Growth, random_below: RandomBelow
) -> TopicState | Refusal:
    present = len(topic.partitions)
    if growth.count <= present or growth.count > PARTITIONS_PER_TOPIC_MAX:
        return _refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"topic has {present} partitions, and {growth.count} is not more, "
            f"or more than {PARTITIONS_PER_TOPIC_MAX}",
        )
    added = growth.count - present
    factor = len(target_replicas(topic.partitions[0]))
    if growth.assignments:
        if len(growth.assignments) != added:
            return _refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added and {len(growth.assignments)} assigned",
            )
        replicas = check_assignment(image, growth.assignments, present)
        if not isinstance(replicas, Refusal) and len(replicas[0]) != factor:
            return _refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the topic has {factor} replicas"
            )
    else:
        replicas = _place(image, topic, added, random_below)
    if isinstance(replicas, Refusal):
        return replicas
    new = (new_partition(image, number, nodes) for number, nodes in enumerate(replicas, present))
    return replace(topic, partitions=(*topic.partitions, *new))


def _place(
    image: ClusterImage, topic: TopicState, added: int, random_below: RandomBelow
) -> list[tuple[NodeId, ...]] | Refusal:
    first = target_replicas(topic.partitions[0])
    racks = usable_racks(image, len(first))
    if len(racks) < len(first):
        return too_few_nodes(image, len(first))
    placed = place_replicas(
        racks,
        partitions=added,
        replication_factor=len(first),
        random_below=random_below,
        first_partition=len(topic.partitions),
        start=walk_start(racks, first[0]),
    )
    online = {n.node_id for n in image.nodes.values() if not n.fenced and not n.draining}
    if not all(online.intersection(replicas) for replicas in placed):
        return _refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR, "too few nodes are online for this factor"
        )
    return placed


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
