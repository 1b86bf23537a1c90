"""What the metadata says about the log of a partition on this node."""

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import NodeId, TopicId


def is_new(topic: TopicState, partition: int) -> bool:
    """Whether this partition's log cannot have existed before this start of the node.

    A start fences the earlier incarnation, which changes the leader and so the epoch.
    """
    for state in topic.partitions[partition : partition + 1]:
        return state.leader_epoch == 0 and state.partition_epoch == 0
    return False


def is_stray(topic_id: TopicId, partition: int, image: ClusterImage, node_id: NodeId) -> bool:
    """Whether the image has no such replica on the node."""
    topic = image.topics.get(topic_id)
    if topic is None or partition >= len(topic.partitions):
        return True
    return node_id not in topic.partitions[partition].replicas
