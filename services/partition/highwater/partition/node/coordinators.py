"""The coordinators of a node, put together: of groups and of transactions."""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.hop.channels import HopChannels
from highwater.hop.coordinator import CoordinatorCall
from highwater.metadata.producer_ids import Allocator, ReadyProducerIds
from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, GROUP_METADATA_TOPIC
from highwater.model.partitioning import coordinator_partition
from highwater.model.time import Clock
from highwater.partition.config import PartitionConfig
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.coordinator.snapshot import FileSnapshotStore
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.groups.kind import SNAPSHOT_FILE_NAME as GROUP_SNAPSHOT
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.node.group_settings import group_config
from highwater.partition.node.marker_link import FindTarget, MarkerLink
from highwater.partition.node.node_calls import NodeCalls
from highwater.partition.node.roles import CoordinatorRoles
from highwater.partition.node.transaction_settings import transaction_config
from highwater.partition.node.verifier_link import VerifierLink
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.kind import SNAPSHOT_FILE_NAME as TRANSACTION_SNAPSHOT
from highwater.partition.transactions.partition_verifier import PartitionVerifier
from highwater.partition.transactions.runtime import TRANSACTION_APIS, TransactionCoordinator
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
    """Implements `CoordinatorPort`: each call goes to the coordinator of its API. Used on one loop,
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
        tasks: TaskOwner,
        clock: Clock,
        log: Logger,
    ) -> None:
        """`find_target` finds who takes markers of partitions that this node leads."""
        self._image: ClusterImage | None = None
        self.calls = NodeCalls(channels)
        """To other nodes."""
        self._verifier_link = VerifierLink(
            node_id=node_id,
            coordinator=lambda: self.transactions,
            calls=self.calls,
            tasks=tasks,
        )
        self.verifier = PartitionVerifier(
            self._verifier_link, call_soon=asyncio.get_running_loop().call_soon
        )
        """Asks any node's coordinator on behalf of this node's partitions."""
        group_log = DataPlaneLog(plane)
        self.groups = GroupCoordinator(
            log=group_log,
            snapshots=FileSnapshotStore(GROUP_SNAPSHOT),
            partition_of=lambda group_id: self.of_group(group_id).partition,
            clock=clock,
            logger=log,
            config=group_config(config),
            verifier=self.verifier,
        )
        self._producer_ids = ReadyProducerIds(allocator, tasks, log)
        self._markers = MarkerLink(
            node_id=node_id, find_target=find_target, calls=self.calls, tasks=tasks
        )
        self._state_log = DataPlaneLog(plane)
        self.transactions = TransactionCoordinator(
            log=self._state_log,
            snapshots=FileSnapshotStore(TRANSACTION_SNAPSHOT),
            topics=self,
            clock=clock,
            logger=log,
            markers=self._markers,
            new_producer_id=self._producer_ids.take,
            transaction_version=lambda: TRANSACTION_VERSION,
            config=transaction_config(config),
        )
        self.roles = CoordinatorRoles(
            group_log,
            self.groups,
            self._state_log,
            self.transactions,
            self._producer_ids.prepare,
            plane.marker_targets,
        )

    # -- CoordinatorPort ----------------------------------------------------------------------

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        if call.api_key in TRANSACTION_APIS:
            self.transactions.submit(call)
        else:
            self.groups.submit(call)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone."""
        if call.api_key in TRANSACTION_APIS:
            self.transactions.cancel(call)
        else:
            self.groups.cancel(call)

    # -- TopicPartitions ----------------------------------------------------------------------

    def of_transaction(self, transactional_id: str) -> int:
        """See `TopicPartitions`; the topic is known if this node leads any of its partitions."""
        topic = self._state_log.topic
        count = STATE_PARTITIONS_DEFAULT if topic is None else len(topic.partitions)
        return coordinator_partition(transactional_id, count)

    def of_group(self, group_id: str) -> TopicPartition:
        """See `TopicPartitions`; also for a topic of which this node leads nothing."""
        image = self._image
        topic = None if image is None else image.topic(GROUP_METADATA_TOPIC, DEFAULT_INSTANCE)
        count = GROUP_PARTITIONS_DEFAULT if topic is None else len(topic.partitions)
        return TopicPartition(GROUP_METADATA_TOPIC, coordinator_partition(group_id, count))

    # -- for the rest of the node -------------------------------------------------------------

    def before_image(self, image: ClusterImage) -> None:
        """Before the node takes its roles in an image: what these may need to know of it."""
        self._image = image
        self.calls.image_changed(image)
        self._markers.image_changed(image)
        self._verifier_link.image_changed(image)

    def after_image(self) -> None:
        """The node has its roles: what waits for leaders of partitions goes on."""
        self.transactions.image_changed()

    async def stop(self) -> None:
        """Clean stop of both coordinators."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.calls.close()
