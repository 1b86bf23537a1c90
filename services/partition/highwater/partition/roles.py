"""Leadership of internal topics' partitions, passed on to the coordinators that live there."""

from highwater.model.cluster import TopicState
from highwater.model.ids import DEFAULT_INSTANCE, GROUP_METADATA_TOPIC
from highwater.partition.coordinator_log import DataPlaneLog
from highwater.partition.groups.runtime import GroupCoordinator


class CoordinatorRoles:
    """A `RoleListener` (see replicas) for the group coordinator of the default instance."""

    def __init__(self, log: DataPlaneLog, groups: GroupCoordinator) -> None:
        self._log = log
        self._groups = groups

    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None:
        """Loads the groups of the partition."""
        if _holds_groups(topic):
            self._log.topic = topic
            self._groups.become_leader(partition, leader_epoch)

    def resigned(self, topic: TopicState, partition: int) -> None:
        """Lets the groups of the partition go."""
        if _holds_groups(topic):
            self._groups.resign(partition)


def _holds_groups(topic: TopicState) -> bool:
    return (
        topic.internal and topic.name == GROUP_METADATA_TOPIC and topic.instance == DEFAULT_INSTANCE
    )
