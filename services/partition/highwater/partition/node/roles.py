"""Tells the coordinators about leadership of internal topics' partitions, about topics and their
ends.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Protocol

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.coordinator_topics import coordinator_home, coordinator_topic_name
from highwater.model.ids import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
    TopicId,
)
from highwater.model.transactions import MarkerTarget
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.node.coordinator_pair import CoordinatorPair


class _Coordinator(Protocol):
    """What all coordinators are told."""

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load and coordinate."""
        ...

    def resign(self, partition: int) -> None:
        """Coordinate no longer."""
        ...


class CoordinatorRoles:
    """A `RoleListener` (see replicas) for all coordinators of a node."""

    def __init__(
        self,
        pairs: Mapping[InstanceId, CoordinatorPair],
        needs_producer_ids: Callable[[], None],
        marker_targets: MutableMapping[TopicId, MarkerTarget],
    ) -> None:
        """`pairs` by the instances that have their topics.

        `needs_producer_ids` is called when this node begins to coordinate transactions.

        `marker_targets` are the data plane's: offsets of groups are committed by markers.
        """
        self._pairs = pairs
        self._needs_producer_ids = needs_producer_ids
        self._marker_targets = marker_targets
        self._groups: dict[tuple[InstanceId, str], GroupCoordinator] = {}
        self._by_topic: dict[tuple[InstanceId, str], tuple[DataPlaneLog, _Coordinator]] = {}
        for home, pair in pairs.items():
            groups = home, coordinator_topic_name(GROUP_METADATA_TOPIC, home)
            states = home, coordinator_topic_name(TRANSACTION_STATE_TOPIC, home)
            self._groups[groups] = pair.groups
            self._by_topic[groups] = pair.group_log, pair.groups
            self._by_topic[states] = pair.state_log, pair.transactions

    def following(self, image: ClusterImage) -> None:
        """Consumer groups compare their topics with the image."""
        for groups in self._groups.values():
            groups.follow(image)

    def became_leader(self, topic: TopicState, partition: int, leader_epoch: int) -> None:
        """Loads the partition's groups or transactions."""
        found = self._coordinator_of(topic)
        if found is None:
            return
        log, coordinator = found
        log.topic = topic
        groups = self._groups.get((topic.instance, topic.name))
        if groups is None:
            self._needs_producer_ids()
        else:
            self._marker_targets[topic.topic_id] = groups
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
        names: defaultdict[InstanceId, set[str]] = defaultdict(set)
        for topic in topics:
            names[topic.instance].add(topic.name)
        for instance, deleted in names.items():
            groups = self._pairs[coordinator_home(instance)].groups
            groups.topics_deleted(instance, frozenset(deleted))

    def _coordinator_of(self, topic: TopicState) -> tuple[DataPlaneLog, _Coordinator] | None:
        if not topic.internal:
            return None
        return self._by_topic.get((topic.instance, topic.name))
