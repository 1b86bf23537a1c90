"""Cluster images for tests of the controller's decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.model.instances import InstanceState


def node_state(number: int, *, rack: str = "", fenced: bool = False) -> NodeState:
    return NodeState(
        node_id=NodeId(number),
        node_epoch=10 + number,
        address=f"host{number}:9300",
        rack=rack or f"host{number}",
        incarnation=f"i{number}",
        log_dirs=("/data",),
        fenced=fenced,
    )


def topic_state(
    name: str, replicas: Iterable[tuple[int, ...]], *, instance: InstanceId = DEFAULT_INSTANCE
) -> TopicState:
    """A healthy topic: the first replica leads, all are in sync."""
    prefix = "" if instance == DEFAULT_INSTANCE else f"{instance}/"
    return TopicState(
        topic_id=TopicId(f"{prefix}{name}".encode().ljust(16, b"\1")[:16]),
        instance=instance,
        name=name,
        partitions=tuple(
            PartitionState(
                partition=number,
                leader=NodeId(nodes[0]),
                leader_epoch=LeaderEpoch(5),
                partition_epoch=7,
                replicas=tuple(NodeId(n) for n in nodes),
                isr=tuple(NodeId(n) for n in nodes),
                last_known_leader=NodeId(nodes[0]),
            )
            for number, nodes in enumerate(replicas)
        ),
    )


def changed_partitions(delta: ClusterDelta | None) -> list[PartitionState]:
    """All partitions of a delta without complete topics, in its order."""
    assert delta is not None
    assert not delta.topics
    return [state for states in delta.partitions.values() for state in states]


def image_of(nodes: Iterable[NodeState] = (), topics: Iterable[TopicState] = ()) -> ClusterImage:
    by_id = {topic.topic_id: topic for topic in topics}
    return ClusterImage(
        revision=100,
        cluster_id="c",
        nodes={node.node_id: node for node in nodes},
        topics=by_id,
        topic_ids={(t.instance, t.name): t.topic_id for t in by_id.values()},
    )


def image_with(
    count: int, *, topics: Iterable[TopicState] = (), fenced: Iterable[int] = ()
) -> ClusterImage:
    """An image with so many nodes, numbered from 1; all live but the fenced ones."""
    down = set(fenced)
    return image_of([node_state(n, fenced=n in down) for n in range(1, count + 1)], topics)


def with_instances(image: ClusterImage, *states: InstanceState) -> ClusterImage:
    """The image with these instances, beside or instead of those that it has."""
    return replace(image, instances={**image.instances, **{each.instance: each for each in states}})
