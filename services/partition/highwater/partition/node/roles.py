"""Tells the coordinators about leadership of internal topics' partitions, about topics and their
ends.
"""

from collections.abc import Sequence

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, GROUP_METADATA_TOPIC
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.groups.runtime import GroupCoordinator


class CoordinatorRoles:
    """A `RoleListener` (see replicas) for the group coordinator of the default instance."""

    def __init__(self, log: DataPlaneLog, groups: GroupCoordinator) -> None:
        self._log = log
        self._groups = groups

    def following(self, image: ClusterImage) -> None:
        """Consumer groups compare their topics with the image."""
        self._groups.follow(image)

    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None:
        """Loads the groups of the partition."""
        if _holds_groups(topic):
            self._log.topic = topic
            self._groups.become_leader(partition, leader_epoch)

    def resigned(self, topic: TopicState, partition: int) -> None:
        """Stops coordinating the partition's groups."""
        if _holds_groups(topic):
            self._groups.resign(partition)

    def topics_deleted(self, topics: Sequence[TopicState]) -> None:
        """Drops committed offsets of deleted topics: a new topic of that name has other records."""
        names = frozenset(topic.name for topic in topics if topic.instance == DEFAULT_INSTANCE)
        if names:
            self._groups.topics_deleted(DEFAULT_INSTANCE, names)


def _holds_groups(topic: TopicState) -> bool:
    return (
        topic.internal and topic.name == GROUP_METADATA_TOPIC and topic.instance == DEFAULT_INSTANCE
    )
