"""Replicas that live nodes cannot serve: a directory has failed, or a log is damaged (KIP-112)."""

from collections.abc import Mapping

from highwater.model.ids import NodeId, TopicId

OfflineReplicas = Mapping[TopicId, frozenset[int]]
"""Partitions whose logs one node cannot use, by topic."""

OfflineByNode = Mapping[NodeId, OfflineReplicas]
"""The partitions that each node cannot use."""


def nodes_without(offline: OfflineByNode) -> dict[TopicId, dict[int, frozenset[NodeId]]]:
    """By topic and partition, the nodes that cannot use their logs of it."""
    found: dict[TopicId, dict[int, frozenset[NodeId]]] = {}
    for node, topics in offline.items():
        for topic_id, partitions in topics.items():
            of_topic = found.setdefault(topic_id, {})
            for partition in partitions:
                of_topic[partition] = of_topic.get(partition, frozenset()) | {node}
    return found


def is_offline(offline: OfflineByNode, node: NodeId, topic_id: TopicId, partition: int) -> bool:
    """True if that node cannot use its log of the partition."""
    return partition in offline.get(node, {}).get(topic_id, ())
