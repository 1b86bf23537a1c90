"""The product's transaction coordinators, one in each process of the coordinator's topic."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater.model.partitioning import coordinator_partition
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.core.shard import TransactionShard
from tests.sim.bug import Bug
from tests.sim.txn.plane import SimClock

if TYPE_CHECKING:
    from tests.sim.site import ProcessPart
    from tests.sim.txn.parts import Node

CONFIG = TransactionConfig(abort_check_ms=150)
SETTINGS = HostSettings(batch_bytes_max=1, commit_timeout_ms=500, snapshot_bytes=1_500)
"""A batch has one record each, as an entry of a simulated log; snapshots come after some twenty."""
TRANSACTION_VERSION = 2


class SimLogger:
    """Logs nothing, and fails the seed where the product logs an error of its own."""

    def bind(self, **_: object) -> SimLogger:
        return self

    def info(self, *_: object, **__: object) -> None:
        """Nothing."""

    warning = exception = debug = info

    def error(self, event: str, **fields: Any) -> None:
        raise AssertionError(f"{event}: {fields}") from fields.get("exc_info")


class SnapshotFiles:
    """The files of shards' snapshots on the nodes' disks, by node."""

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}

    def of(self, node: int) -> NodeSnapshots:
        """Those of one node."""
        return NodeSnapshots(self._files, node)


class NodeSnapshots:
    """A `SnapshotStore`."""

    def __init__(self, files: dict[int, bytes], node: int) -> None:
        self._files = files
        self._node = node

    def load(self, place: LogPlace) -> bytes | None:
        del place
        return self._files.get(self._node)

    def save(self, place: LogPlace, data: bytes) -> None:
        del place
        self._files[self._node] = data


class Topics:
    """A `TopicPartitions`: each topic has one partition."""

    def of_transaction(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, 1)

    def of_group(self, group_id: str) -> TopicPartition:
        raise AssertionError("no group here")


class Coordinators:
    """Of one cluster."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug
        self._snapshots = SnapshotFiles()
        self._new_producer_id = partial(next, itertools.count(1_000))

    def open(self, node: Node, log: DataPlaneLog) -> Any:
        """The coordinator of a process; called on its loop."""
        return self._bug.coordinator(
            log=log,
            snapshots=self._snapshots.of(node.process.node),
            topics=Topics(),
            clock=SimClock(node.process),
            logger=SimLogger(),
            markers=node.marker_link,
            new_producer_id=self._new_producer_id,
            transaction_version=lambda: TRANSACTION_VERSION,
            config=CONFIG,
            settings=SETTINGS,
        )

    @staticmethod
    def shard_of(part: ProcessPart) -> TransactionShard | None:
        """The shard that a process serves."""
        coordinator = getattr(part, "coordinator", None)
        if coordinator is None:
            return None
        return next(coordinator._hosts.shards(), None)
