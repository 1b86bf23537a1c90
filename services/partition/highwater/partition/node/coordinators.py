"""The coordinators of a node, put together: of groups and of transactions."""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from highwater.hop.channels import HopChannels
from highwater.hop.coordinator import CoordinatorCall
from highwater.metadata.producer_ids import Allocator, ReadyProducerIds
from highwater.model.cluster import ClusterImage
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.model.time import Clock
from highwater.partition.config import PartitionConfig
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.coordinator.snapshot import FileSnapshotStore
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.groups.kind import SNAPSHOT_FILE_NAME as GROUP_SNAPSHOT
from highwater.partition.groups.runtime import GroupCoordinator, GroupRoom
from highwater.partition.node.coordinator_pair import CoordinatorPair
from highwater.partition.node.group_settings import group_config
from highwater.partition.node.marker_link import FindTarget, MarkerLink
from highwater.partition.node.node_calls import NodeCalls
from highwater.partition.node.roles import CoordinatorRoles
from highwater.partition.node.transaction_settings import transaction_config
from highwater.partition.node.verifier_link import VerifierLink
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.kind import SNAPSHOT_FILE_NAME as TRANSACTION_SNAPSHOT
from highwater.partition.transactions.partition_verifier import PartitionVerifier
from highwater.partition.transactions.runtime import TransactionCoordinator
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

TRANSACTION_VERSION: Final = 2
"""The cluster's transaction.version, by which the coordinator ends what no client has ended: the
marker has a larger epoch than the records (KIP-890). Clients of every version get along with it."""

STATE_PARTITIONS_DEFAULT: Final = 50
"""transaction.state.log.num.partitions, while the topic does not exist."""
GROUP_PARTITIONS_DEFAULT: Final = 50
"""offsets.topic.num.partitions, while the topic does not exist."""


class NodeCoordinators:
    """Implements `CoordinatorPort`: each call goes to the coordinators of its instance. Used on one loop,
    from the node's start to `stop`.
    """

    def __init__(
        self,
        config: PartitionConfig,
        *,
        plane: DataPlane,
        node_id: Callable[[], int],
        find_target: FindTarget,
        channels: HopChannels,
        allocator: Allocator,
        room: GroupRoom,
        tasks: TaskOwner,
        clock: Clock,
        log: Logger,
    ) -> None:
        """`find_target` finds who takes markers of partitions that this node leads. `room` knows the
        instances' limits of groups.
        """
        self._image: ClusterImage | None = None
        self.calls = NodeCalls(channels)
        """To other nodes."""
        self._verifier_link = VerifierLink(
            node_id=node_id,
            coordinator=lambda instance: self.of_instance(instance).transactions,
            calls=self.calls,
            tasks=tasks,
        )
        self.verifier = PartitionVerifier(
            self._verifier_link, call_soon=asyncio.get_running_loop().call_soon
        )
        """Asks any node's coordinator on behalf of this node's partitions."""
        self._producer_ids = ReadyProducerIds(allocator, tasks, log)
        self._markers = MarkerLink(
            node_id=node_id,
            find_target=find_target,
            calls=self.calls,
            tasks=tasks,
            call_later=asyncio.get_running_loop().call_later,
        )
        make_pair = partial(self._make_pair, config, plane, node_id, room, clock, log)
        self._of_default = make_pair(of_default_instance=True)
        self._of_others = make_pair(of_default_instance=False)
        self.pairs = (self._of_default, self._of_others)
        self.roles = CoordinatorRoles(
            {DEFAULT_INSTANCE: self._of_default, SYSTEM_INSTANCE: self._of_others},
            self._producer_ids.prepare,
            plane.marker_targets,
        )

    def _make_pair(
        self,
        config: PartitionConfig,
        plane: DataPlane,
        node_id: Callable[[], int],
        room: GroupRoom,
        clock: Clock,
        log: Logger,
        *,
        of_default_instance: bool,
    ) -> CoordinatorPair:
        group_log, state_log = DataPlaneLog(plane), DataPlaneLog(plane)
        groups = GroupCoordinator(
            log=group_log,
            snapshots=FileSnapshotStore(GROUP_SNAPSHOT),
            partition_of=lambda instance, group_id: self.of_group(instance, group_id).partition,
            clock=clock,
            logger=log,
            config=group_config(config),
            node_id=node_id,
            of_default_instance=of_default_instance,
            room=room,
            verifier=self.verifier,
        )
        transactions = TransactionCoordinator(
            log=state_log,
            snapshots=FileSnapshotStore(TRANSACTION_SNAPSHOT),
            topics=self,
            clock=clock,
            logger=log,
            markers=self._markers,
            new_producer_id=self._producer_ids.take,
            transaction_version=lambda: TRANSACTION_VERSION,
            config=transaction_config(config),
            of_default_instance=of_default_instance,
        )
        return CoordinatorPair(
            groups=groups, group_log=group_log, transactions=transactions, state_log=state_log
        )

    def of_instance(self, instance: InstanceId) -> CoordinatorPair:
        """The coordinators that an instance's calls go to."""
        return self._of_default if instance == DEFAULT_INSTANCE else self._of_others

    # -- CoordinatorPort ----------------------------------------------------------------------

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        self.of_instance(call.instance).submit(call)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone."""
        self.of_instance(call.instance).cancel(call)

    # -- TopicPartitions ----------------------------------------------------------------------

    def of_transaction(self, instance: InstanceId, transactional_id: str) -> int:
        """See `TopicPartitions`."""
        count = self._count(TRANSACTION_STATE_TOPIC, instance, STATE_PARTITIONS_DEFAULT)
        return coordinator_place(instance, transactional_id, count)

    def of_group(self, instance: InstanceId, group_id: str) -> TopicPartition:
        """See `TopicPartitions`; also for a topic of which this node leads nothing."""
        count = self._count(GROUP_METADATA_TOPIC, instance, GROUP_PARTITIONS_DEFAULT)
        return TopicPartition(GROUP_METADATA_TOPIC, coordinator_place(instance, group_id, count))

    def _count(self, name: str, instance: InstanceId, default: int) -> int:
        image = self._image
        topic = None if image is None else image.coordinator_topic(name, instance)
        return default if topic is None else len(topic.partitions)

    # -- CountedGroups ------------------------------------------------------------------------

    def count_groups(self, instance: InstanceId) -> int:
        """See `CountedGroups`."""
        return self.of_instance(instance).groups.count(instance)

    def count_group_shards(self) -> int:
        """See `CountedGroups`."""
        return sum(pair.groups.shards_active for pair in self.pairs)

    # -- for the rest of the node -------------------------------------------------------------

    def before_image(
        self, image: ClusterImage, removed_instances: AbstractSet[InstanceId] = frozenset()
    ) -> None:
        """Before the node takes its roles in an image: what these may need to know of it.

        `removed_instances` were purged since the image before. They may be there again.
        """
        self._image = image
        for each in (self._of_others.groups, self._of_others.transactions):
            each.purge.follow(image.instances, removed_instances)
        self.calls.image_changed(image)
        self._markers.image_changed(image)
        self._verifier_link.image_changed(image)

    def after_image(self) -> None:
        """The node has its roles: what waits for leaders of partitions goes on, and new instances may call."""
        for each in (self._of_others.groups, self._of_others.transactions):
            each.purge.applied()
        for pair in self.pairs:
            pair.transactions.image_changed()

    async def stop(self) -> None:
        """Clean stop of all coordinators."""
        for pair in self.pairs:
            await pair.stop()
        await self.calls.close()
