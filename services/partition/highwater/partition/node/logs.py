"""The node's logs: opened off the loop, maintained, closed in order."""

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.dynamic_config import broker_number
from highwater.model.errors import UsageError
from highwater.model.ids import NodeId
from highwater.model.time import Clock
from highwater.partition.config import PartitionConfig
from highwater.partition.core.producer_budget import ProducerLimits
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.membership import Membership, NodeIdentity
from highwater.partition.node.replica_moves import RATE, Key, ReplicaMoves
from highwater.partition.node.static_configs import static_configs
from highwater.partition.storage.cleaning.cleaner import Cleaner
from highwater.partition.storage.cleaning.settings import cleaner_settings
from highwater.partition.storage.directory.damaged_logs import DamagedLogs
from highwater.partition.storage.directory.failure_notes import (
    RuntimeNotes,
    runtime_directories,
)
from highwater.partition.storage.directory.kernel_volume import KernelVolumes
from highwater.partition.storage.directory.log_maintenance import (
    LogMaintenance,
    MaintenanceIntervals,
)
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.node_lineage import NodeLineage
from highwater.partition.storage.errors import LogDirFailure, LogDirInUseError, StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import partition_directory
from highwater.partition.storage.scrubbing.scrubber import Damage, LogScrubber
from highwater.runtime.collector import collection_paused
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class NodeLogs:
    """A `LogStore` (see replicas) over a LogManager, from `open` to `close`."""

    def __init__(
        self,
        config: PartitionConfig,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        log: Logger,
        on_dir_failure: Callable[[int, LogDirFailure], None],
        on_damage: Callable[[PartitionLog, Damage], None],
        find: Callable[[Key], PartitionReplica | None] = lambda _: None,
    ) -> None:
        """`on_damage` is called with records in closed segments that have changed on the disk.

        `find` gives a replica that is here now, for its moves.
        """
        self._config = config
        self._log = log
        self._membership: Membership | None = None
        self._lineage = _lineage(config)

        def post(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        self.manager = LogManager(
            config.log_dirs,
            clock=clock,
            post=post,
            on_dir_failure=on_dir_failure,
            jitter_share=random.random,
            lineage=self._lineage,
            producer_limits=ProducerLimits(
                expiration_ms=config.producer_id_expiration_ms,
                per_partition=config.producer_ids_per_partition_max,
                per_node=config.producer_ids_per_node_max,
            ),
        )
        self._damaged = DamagedLogs(self.manager)
        self._maintenance = LogMaintenance(
            self.manager,
            clock=clock,
            intervals=MaintenanceIntervals(
                retention_ms=config.retention_check_interval_ms,
                checkpoint_ms=config.checkpoint_interval_ms,
                high_watermark_ms=config.high_watermark_checkpoint_interval_ms,
            ),
            log=log,
        )
        self.cleaner = Cleaner(
            self.manager,
            clock=clock,
            log=log,
            enable=config.log_cleaner_enable,
            settings=cleaner_settings(static_configs(config)),
        )
        self.moves = ReplicaMoves(self.manager, find=find, clock=clock, log=log)
        self.scrubber = LogScrubber(
            self.manager,
            bytes_per_s=config.log_scrub_bytes_per_s,
            pause_s=config.log_scrub_interval_ms / 1000,
            on_damage=on_damage,
        )

    def open(self) -> NodeIdentity:
        """Recovers every log; call it off the loop, as it may take long.

        An unusable directory is offline with its partitions. Raises UsageError if no directory is
        left, or if the directories do not belong together.
        """
        try:
            with collection_paused():  # The objects of logs stay.
                identity = self.manager.open()
        except LogDirInUseError as error:
            raise UsageError(str(error)) from None
        except StorageError as error:
            raise UsageError(f"the log directories cannot be used: {error}") from error
        self._damaged.find()
        if self.manager.all_dirs_failed:
            self.manager.close()
            raise UsageError("no log directory can be used: " + "; ".join(self._failures()))
        wanted = self._config.node_id
        if wanted >= 0 and identity.node_id >= 0 and wanted != identity.node_id:
            raise UsageError(
                f"node_id is {wanted}, but the log directories belong to node {identity.node_id}"
            )
        for name, problem in self.manager.unusable.items():
            self._log.error("log_unusable", log=name, error=str(problem))
        return NodeIdentity(
            node_id=identity.node_id if identity.node_id >= 0 else wanted,
            cluster_id=identity.cluster_id,
            previous_node_epoch=self.manager.previous_node_epoch,
            incarnation=self._lineage.incarnation,
        )

    @property
    def lineage(self) -> tuple[str, ...]:
        """Incarnations of this node whose records the directories hold without a gap."""
        return self._lineage.evidence

    def _failures(self) -> list[str]:
        return [str(hosted.failure) for hosted in self.manager.dirs if hosted.failure is not None]

    @property
    def failed_dirs(self) -> tuple[int, ...]:
        """Indexes of the directories that are offline."""
        return tuple(h.index for h in self.manager.dirs if h.failure is not None)

    def set_strays_aside(self, image: ClusterImage, node_id: NodeId) -> None:
        """Renames stray logs, for which the image has no replica on this node, and reports them."""
        for directory in self.manager.set_strays_aside(image, node_id):
            self._log.warning("stray_log", kept_as=directory)

    def start(self, tasks: TaskOwner) -> None:
        """Starts the workers and the periodic work. On the loop."""
        self.manager.start()
        self.moves.start(tasks)
        tasks.start(self._maintenance.run(), name="log-maintenance")
        tasks.start(self.cleaner.run(), name="log-cleaner")
        if self._config.log_scrub_bytes_per_s:
            tasks.start(self.scrubber.run(), name="log-scrubber")

    def registered(self, membership: Membership) -> None:
        """The controller has registered this node."""
        self._membership = membership
        self.manager.write_identity(node_id=membership.node_id, cluster_id=membership.cluster_id)
        self.manager.registered()

    def close(self) -> None:
        """Closes all logs in order; blocks while the disks work, usually seconds."""
        self.moves.close()
        epoch = -1 if self._membership is None else self._membership.node_epoch
        for failure in self.manager.close(node_epoch=epoch):
            self._log.error("log_dir_not_closed", error=str(failure))

    @property
    def all_dirs_failed(self) -> bool:
        """Whether no directory is online."""
        return self.manager.all_dirs_failed

    @property
    def hangs(self) -> bool:
        """Whether a write hangs in every directory; may be called from any thread."""
        return self.manager.hangs

    def is_online(self, index: int) -> bool:
        """Whether the directory works."""
        return self.manager.dirs[index].failure is None

    def open_log(self, topic: TopicState, partition: int) -> tuple[PartitionLog, int]:
        """See LogStore."""
        return self.manager.open_log(topic, partition)

    def has_log(self, log: PartitionLog) -> bool:
        """See LogStore."""
        return self.manager.has_log(log)

    def delete_log(self, log: PartitionLog) -> None:
        """See LogStore."""
        self.manager.delete_log(log)

    def set_damaged_aside(self, log: PartitionLog) -> None:
        """See LogStore."""
        self._damaged.set_aside(log)
        self._log.warning("damaged_log_set_aside", kept_as=log.directory)

    def remove_set_aside(self, topic: TopicState, partition: int) -> None:
        """See LogStore."""
        if not self._damaged:
            return  # The usual case; the look-up below would cost time per partition.
        name = partition_directory(
            topic.name, partition, topic_id=topic.topic_id, instance=topic.instance
        )
        for directory in self._damaged.remove(name):
            self._log.info("damaged_log_removed", kept_as=directory)

    def reconfigure(self, log: PartitionLog, topic: TopicState) -> None:
        """See LogStore."""
        self.manager.reconfigure(log, topic)

    def set_broker_configs(self, configs: Mapping[str, str]) -> None:
        """See LogStore."""
        self.manager.set_broker_configs(configs)
        self.cleaner.reconfigure(cleaner_settings(configs))
        self.moves.set_rate(int(broker_number(RATE, configs)))

    def flush(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """Syncs a log off the loop, then calls `done` on it (flush.messages)."""
        self.manager.flush(log, done)

    def note_damage(self, log: PartitionLog, damage: Damage) -> None:
        """Excludes damaged records from reads, now and after a restart."""
        try:
            log.lost.add(damage.first, damage.end)
        except LogDirFailure as failure:
            self.manager.fail_dir(self.manager.dir_index(log), failure)

    def keep_flushed(self, log: PartitionLog) -> None:
        """Syncs a log off the loop and then writes its recovery point."""
        self.manager.keep_flushed(log)

    def fail_dir(self, index: int, failure: LogDirFailure) -> None:
        """Takes a directory offline."""
        self.manager.fail_dir(index, failure)


def _lineage(config: PartitionConfig) -> NodeLineage:
    boot_id = _boot_id()
    return NodeLineage(
        incarnation=uuid.uuid4().hex,
        boot_id=boot_id,
        volumes=KernelVolumes(),
        notes=RuntimeNotes(runtime_directories(config.lineage_notes_dir), boot_id=boot_id),
    )


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""  # Not Linux: the controller then never relies on the page cache.
