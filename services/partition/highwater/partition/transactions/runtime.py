"""The transaction coordinator of one node: passes calls to the shards of the partitions that it leads, and
what these decide to the sender of markers.

It serves one coordinator topic. `__transaction_state` has the default instance only; another object of
this class serves the topic that all other instances share, and that clients do not see.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.calls import ShardCalls, ShardOf
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.coordinator.hosts import ShardHosts
from highwater.partition.coordinator.instance_purge import InstancePurge
from highwater.partition.coordinator.kind import FollowUp
from highwater.partition.coordinator.log_port import CoordinatorLog
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.coordinator.snapshot import SnapshotStore
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.state import PREPARE_COMMIT, TransactionState
from highwater.partition.transactions.core.transitions import TV2
from highwater.partition.transactions.core.values import NewProducerId, Prepared
from highwater.partition.transactions.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from highwater.partition.transactions.kind import transaction_kind
from highwater.partition.transactions.marker_sender import Ending, MarkerPort, MarkerSender
from highwater.partition.transactions.partition_verifier import Codes, Question
from highwater.runtime.logging import Logger

TRANSACTION_APIS: Final = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    }
)
"""The calls that this coordinator takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStats:
    """Counts over all shards of the node, for its metrics."""

    transactions: dict[TransactionState, int]
    markers_waiting: int
    markers_written: int
    marker_failures: int
    shards_active: int
    shards_loading: int


class TopicPartitions(Protocol):
    """In which partitions of internal topics an instance's ids belong."""

    def of_transaction(self, instance: InstanceId, transactional_id: str) -> int:
        """The partition of the topic of transactions."""
        ...

    def of_group(self, instance: InstanceId, group_id: str) -> TopicPartition:
        """The partition of the topic of groups, which goes by the name `__consumer_offsets`."""
        ...


class TransactionCoordinator:
    """Implements `CoordinatorPort` for `TRANSACTION_APIS`; used on one event loop."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        snapshots: SnapshotStore,
        topics: TopicPartitions,
        clock: Clock,
        logger: Logger,
        markers: MarkerPort,
        new_producer_id: NewProducerId,
        transaction_version: Callable[[], int],
        config: TransactionConfig | None = None,
        settings: HostSettings | None = None,
        of_default_instance: bool = True,
    ) -> None:
        """`transaction_version` is the cluster's. For `of_default_instance` see `ShardCalls`."""
        self._clock = clock
        self._topics = topics
        self._markers = markers
        loop = asyncio.get_running_loop()
        self._call_soon = loop.call_soon
        self.sender = MarkerSender(
            markers,
            call_soon=loop.call_soon,
            call_later=loop.call_later,
            monotonic_ms=clock.monotonic_ms,
            logger=logger,
        )
        self._hosts = ShardHosts(
            transaction_kind(
                config or TransactionConfig(),
                new_producer_id,
                transaction_version,
                self._follow_ups,
                lambda shard: self.purge.activated(shard),  # noqa: PLW0108 - made below.
            ),
            log=log,
            snapshots=snapshots,
            clock=clock,
            logger=logger,
            settings=settings,
        )
        self.purge = InstancePurge(
            self._hosts,
            forgetting_of=lambda shard: shard.forgetting,
            call_later=loop.call_later,
        )
        """Of instances; it is told of them if others than the default one are served."""
        self._calls = ShardCalls(
            self._hosts,
            partition_of=topics.of_transaction,
            of_default_instance=of_default_instance,
            admits_instance=self.purge.admits,
        )

    # -- roles --------------------------------------------------------------------------------

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """See `ShardHosts.become_leader`. `leader_epoch` is the coordinator epoch of markers."""
        self._hosts.become_leader(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """See `ShardHosts.resign`. No marker of the partition's transactions leaves any more."""
        self._hosts.resign(partition)

    def image_changed(self) -> None:
        """Leaders of partitions that wait for a marker may have changed."""
        self.sender.image_changed()

    async def stop(self, *, timeout_s: float = 10.0) -> None:
        """See `ShardHosts.stop`."""
        await self._hosts.stop(timeout_s=timeout_s)

    # -- CoordinatorPort ----------------------------------------------------------------------

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        calls = self._calls
        if not calls.admits(call):
            return
        match call.api_key:
            case ApiKey.END_TXN:
                calls.one_key(call, end_txn.handle)
            case ApiKey.INIT_PRODUCER_ID:
                calls.one_key(call, init_producer_id.handle)
            case ApiKey.ADD_OFFSETS_TO_TXN:
                calls.one_key(call, self._add_offsets)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                if call.api_version < add_partitions_to_txn.BATCHED_FROM:
                    calls.one_key(call, self._add_partitions)
                else:
                    calls.many_keys(call, self._many_transactions, writes=True)
            case ApiKey.LIST_TRANSACTIONS:
                calls.all_shards_in_steps(call, self._list, self._call_soon)
            case _:
                calls.many_keys(call, self._many_transactions, writes=False)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone: answer nothing."""
        self._hosts.cancel(call)

    def _add_offsets(self, shard: TransactionShard, call: CoordinatorCall, now: Moment) -> bytes:
        return add_offsets_to_txn.handle(
            shard, call, now, partition_of=self._topics.of_group, exists=self._markers.exists
        )

    def _add_partitions(self, shard: TransactionShard, call: CoordinatorCall, now: Moment) -> bytes:
        return add_partitions_to_txn.handle(shard, call, now, exists=self._markers.exists)

    def _many_transactions(
        self, call: CoordinatorCall, shard_of: ShardOf[TransactionShard]
    ) -> bytes | ErrorCode:
        """Calls that name several transactional ids."""
        match call.api_key:
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return add_partitions_to_txn.handle_batch(
                    shard_of,
                    call,
                    Moment(self._clock.monotonic_ms(), self._clock.wall_ms()),
                    exists=self._markers.exists,
                )
            case ApiKey.DESCRIBE_TRANSACTIONS:
                return describe_transactions.handle(shard_of, call)
            case _:
                return ErrorCode.INVALID_REQUEST

    def _list(self, shards: Iterator[TransactionShard], call: CoordinatorCall) -> Steps[bytes]:
        return list_transactions.handle(
            shards, call, loading=self._hosts.loading, wall_ms=self._clock.wall_ms()
        )

    # -- questions of this node's partitions ---------------------------------------------------

    def ask(self, question: Question, done: Callable[[int, Codes | None], None]) -> None:
        """See `LocalCoordinator`."""
        self._calls.in_process(
            *question.key,
            "a question of this node",
            partial(self._answer, question),
            done,
        )

    def _answer(self, question: Question, shard: TransactionShard, now: Moment) -> Codes:
        return add_partitions_to_txn.verify_or_add(
            shard,
            question.key,
            question.producer,
            question.partitions,
            TV2 if question.adds_partitions else None,
            now,
            exists=self._markers.exists,
        )

    # -- markers ------------------------------------------------------------------------------

    def _follow_ups(
        self, shard: TransactionShard, partition: int, leader_epoch: int
    ) -> Iterable[FollowUp]:
        return [
            partial(self._send_markers, shard, partition, leader_epoch, prepared)
            for prepared in shard.take_prepared()
        ]

    def _send_markers(
        self, shard: TransactionShard, partition: int, leader_epoch: int, prepared: Prepared
    ) -> None:
        """The decision is committed: it may be told."""
        key, image = prepared.key, prepared.image
        self.sender.begin(
            Ending(
                key=key,
                marker=TransactionMarker(
                    producer_id=image.producer_id,
                    producer_epoch=image.producer_epoch,
                    committed=image.state is PREPARE_COMMIT,
                    coordinator_epoch=leader_epoch,
                    transaction_version=image.client_version,
                ),
                waiting=set(prepared.partitions),
                is_current=partial(self._hosts.is_served, partition, shard),
                written=partial(shard.marker_written, key),
                complete=partial(
                    self._hosts.decide,
                    partition,
                    shard,
                    "transaction_complete",
                    lambda served, now: served.complete(key, now),
                ),
            )
        )

    # -- for the rest of the node -------------------------------------------------------------

    def stats(self) -> TransactionStats:
        """Counts for metrics; takes time proportional to the number of transactional ids."""
        transactions = dict.fromkeys(TransactionState, 0)
        active = 0
        for shard in self._hosts.shards():
            active += 1
            for image in shard.images.values():
                transactions[image.state] += 1
        return TransactionStats(
            transactions=transactions,
            markers_waiting=self.sender.waiting,
            markers_written=self.sender.written,
            marker_failures=self.sender.failures,
            shards_active=active,
            shards_loading=len(self._hosts.by_partition) - active,
        )
