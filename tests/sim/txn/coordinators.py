"""The product's coordinators, one in each process of a coordinator's topic."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import GROUP_METADATA_TOPIC, InstanceId
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.runtime import TransactionCoordinator
from tests.sim.bug import Bug
from tests.sim.role import SimClock

if TYPE_CHECKING:
    from tests.sim.site import ProcessPart
    from tests.sim.txn.parts import Node

Coordinator = TransactionCoordinator | GroupCoordinator

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


class NodeSnapshots:
    """A `SnapshotStore`: the file of a shard's snapshot on a node's disk."""

    def __init__(self, files: dict[tuple[str, int], bytes], topic: str, node: int) -> None:
        self._files = files
        self._key = topic, node

    def load(self, place: LogPlace) -> bytes | None:
        del place
        return self._files.get(self._key)

    def save(self, place: LogPlace, data: bytes) -> None:
        del place
        self._files[self._key] = data


class Topics:
    """A `TopicPartitions`: each topic has one partition."""

    def of_transaction(self, instance: InstanceId, transactional_id: str) -> int:
        return coordinator_place(instance, transactional_id, 1)

    def of_group(self, instance: InstanceId, group_id: str) -> TopicPartition:
        return TopicPartition(GROUP_METADATA_TOPIC, coordinator_place(instance, group_id, 1))


class Coordinators:
    """Of one cluster."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug
        self._files: dict[tuple[str, int], bytes] = {}
        self._new_producer_id = partial(next, itertools.count(1_000))
        self._new_member_id = map("member-{}".format, itertools.count()).__next__

    def open(self, node: Node, log: DataPlaneLog) -> Coordinator:
        """The coordinator of a process; called on its loop."""
        topic = node.replica.topic_name
        shared: dict[str, Any] = {
            "log": log,
            "snapshots": NodeSnapshots(self._files, topic, node.process.node),
            "clock": SimClock(node.process),
            "logger": SimLogger(),
            "settings": SETTINGS,
        }
        if topic == GROUP_METADATA_TOPIC:
            groups = GroupCoordinator(
                partition_of=lambda _instance, _group_id: 0,
                verifier=node.verifier,
                new_id=self._new_member_id,
                **shared,
            )
            node.plane.marker_targets[node.replica.topic_id] = groups
            return groups
        return self._bug.coordinator(
            topics=Topics(),
            markers=node.marker_link,
            new_producer_id=self._new_producer_id,
            transaction_version=lambda: TRANSACTION_VERSION,
            config=CONFIG,
            **shared,
        )

    @staticmethod
    def shard_of(part: ProcessPart) -> Any:
        """The shard that a process serves, None if it serves none."""
        coordinator = getattr(part, "coordinator", None)
        if coordinator is None:
            return None
        return next(coordinator._hosts.shards(), None)
