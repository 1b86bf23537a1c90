"""Tells the coordinators about leadership of internal topics' partitions, about topics and their
ends.
"""

from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicId,
)
from highwater.model.transactions import MarkerTarget
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.transactions.runtime import TransactionCoordinator


class _Coordinator(Protocol):
    """What both coordinators are told."""

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load and coordinate."""
        ...

    def resign(self, partition: int) -> None:
        """Coordinate no longer."""
        ...


class CoordinatorRoles:
    """A `RoleListener` (see replicas) for the coordinators of the default instance."""

    def __init__(
        self,
        group_log: DataPlaneLog,
        groups: GroupCoordinator,
        state_log: DataPlaneLog,
        transactions: TransactionCoordinator,
        needs_producer_ids: Callable[[], None],
        marker_targets: MutableMapping[TopicId, MarkerTarget],
    ) -> None:
        """`needs_producer_ids` is called when this node begins to coordinate transactions.

        `marker_targets` are the data plane's: offsets of groups are committed by markers.
        """
        self._groups = groups
        self._needs_producer_ids = needs_producer_ids
        self._marker_targets = marker_targets
        self._by_topic: dict[str, tuple[DataPlaneLog, _Coordinator]] = {
            GROUP_METADATA_TOPIC: (group_log, groups),
            TRANSACTION_STATE_TOPIC: (state_log, transactions),
        }

    def following(self, image: ClusterImage) -> None:
        """Consumer groups compare their topics with the image."""
        self._groups.follow(image)

    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None:
        """Loads the partition's groups or transactions."""
        found = self._coordinator_of(topic)
        if found is None:
            return
        log, coordinator = found
        log.topic = topic
        if topic.name == TRANSACTION_STATE_TOPIC:
            self._needs_producer_ids()
        else:
            self._marker_targets[topic.topic_id] = self._groups
        coordinator.become_leader(partition, leader_epoch)

    def resigned(self, topic: TopicState, partition: int) -> None:
        """Stops coordinating the partition's groups or transactions."""
        found = self._coordinator_of(topic)
        if found is not None:
            found[1].resign(partition)

    def topics_deleted(self, topics: Sequence[TopicState]) -> None:
        """Drops committed offsets of deleted topics: a new topic of that name has other records.

        Transactions find out by themselves that a partition needs no marker any more.
        """
        names = frozenset(topic.name for topic in topics if topic.instance == DEFAULT_INSTANCE)
        if names:
            self._groups.topics_deleted(DEFAULT_INSTANCE, names)

    def _coordinator_of(self, topic: TopicState) -> tuple[DataPlaneLog, _Coordinator] | None:
        if not topic.internal or topic.instance != DEFAULT_INSTANCE:
            return None
        return self._by_topic.get(topic.name)
