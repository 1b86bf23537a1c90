"""What follows when a replica, its log, or a whole log directory of the node fails.

The controller hears which partitions the node cannot serve, and lets others lead. A node without any
directory ends.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from highwater.model.errors import HighwaterError
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.logs import NodeLogs
from highwater.partition.node.membership import Membership
from highwater.partition.node.replicas import Replicas
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure, StorageError
from highwater.runtime.logging import Logger


class NodeFailures:
    """One per node, on its loop. It exists before the parts that report to it, so it asks for them."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        *,
        plane_replicas: Callable[[], Iterable[PartitionReplica]],
        logs: Callable[[], NodeLogs],
        replicas: Callable[[], Replicas],
        membership: Callable[[], Membership | None],
        failed: "asyncio.Future[None]",
        log: Logger,
    ) -> None:
        """`membership` gives None before the node has joined; `failed` gets the error that ends it."""
        self._log_dirs = log_dirs
        self._plane_replicas = plane_replicas
        self._logs = logs
        self._replicas = replicas
        self._membership = membership
        self._failed = failed
        self._log = log

    def replica_bug(self, replica: PartitionReplica, error: Exception) -> None:
        """A replica has failed; if that is its log's fault, it is fetched again from others."""
        damaged = isinstance(error, CorruptLogError)
        self._log.error(
            "replica_failed",
            topic=replica.topic_name,
            partition=replica.partition,
            exc_info=error,
            fetched_again=damaged and self._replicas().step_back(replica, ()),
        )
        self.tell_offline()

    def log_failed(self, replica: PartitionReplica, error: StorageError) -> None:
        """I/O failed on one log: its whole directory goes offline, as in Kafka. Or it is damaged, so
        that a follower cannot do with it what its leader says.
        """
        if isinstance(error, LogDirFailure):
            self._logs().fail_dir(replica.log_dir, error)
            return
        replica.fail()
        self._log.error(
            "log_not_cut",
            topic=replica.topic_name,
            partition=replica.partition,
            error=str(error),
            fetched_again=self._replicas().replace_uncut_log(replica),
        )
        self.tell_offline()

    def dir_failed(self, log_dir: int, error: LogDirFailure) -> None:
        """A directory, by its index, is offline until the next start; so are its replicas."""
        self._log.error("log_dir_failed", error=str(error), log_dir=log_dir)
        for replica in self._plane_replicas():
            if replica.log_dir == log_dir and not replica.failed:
                replica.fail()
        membership = self._membership()
        if membership is not None:
            membership.log_dir_failed(str(self._log_dirs[log_dir]))
        self.tell_offline()
        if self._logs().all_dirs_failed and not self._failed.done():
            self._failed.set_exception(HighwaterError("every log directory has failed"))

    def tell_offline(self) -> None:
        """The controller makes those partitions leaderless, or lets another replica lead."""
        self._replicas().count()
        membership = self._membership()
        if membership is not None:
            membership.nudge()
