"""Known bugs of transactions: in a partition's log, in its leader, and in the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from highwater.hop.append import AppendGroup
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transactions import (
    NO_PRODUCER,
    AbortedTransaction,
    Transactions,
)
from highwater.partition.data_plane.verified_appends import VerifiedAppends
from highwater.partition.transactions.core.image import TransactionRecord
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.state import EMPTY
from highwater.partition.transactions.runtime import TransactionCoordinator

# ---- logs ----


class TakesFormerCoordinators(ProducerStates):
    """A marker counts whatever coordinator it comes from."""

    __slots__ = ()

    def check_marker(self, marker: TransactionMarker) -> int:
        known = self.transactions.coordinator_epoch(marker.producer_id)
        newer = max(known, marker.coordinator_epoch)
        return super().check_marker(marker._replace(coordinator_epoch=newer))


class TakesLateMarkers(ProducerStates):
    """A marker may have the epoch of the records that it ends, also where each end bumps it."""

    __slots__ = ()

    def check_marker(self, marker: TransactionMarker) -> int:
        return super().check_marker(marker._replace(transaction_version=0))


class LetsAnyBatchBegin(ProducerStates):
    """A batch begins a transaction, whether the coordinator knows of one or not."""

    __slots__ = ()

    def append_transactional(self, *batch: Any, **more: Any) -> int:
        return super().append_transactional(*batch, **{**more, "may_begin": True})


class SnapsNoTransactions(ProducerStates):
    """A snapshot has the producers, but not their open transactions."""

    __slots__ = ()

    def packed(self) -> list[bytes]:
        return self._known.batches()


class TellsNoAborts(ProducerStates):
    """Nothing comes into the index of aborted transactions."""

    __slots__ = ()

    def record_marker(self, *marker: Any, **more: Any) -> AbortedTransaction | None:
        super().record_marker(*marker, **more)
        return None


class IgnoresOpen(Transactions):
    """The last stable offset goes by markers alone."""

    __slots__ = ()

    def _first_open(self) -> int:
        return 1 << 63


class IgnoresUncommittedMarkers(Transactions):
    """A transaction is stable when its marker is in the log, committed or not."""

    __slots__ = ()

    def last_stable_offset(self, high_watermark: int) -> int:
        self.committed = high_watermark
        return min(high_watermark, self._first_open())


class ForgetsIndexes(Transactions):
    """A start that finds no producers of transactions looks for no aborted ones."""

    __slots__ = ()

    def aborted_are_indexed(self) -> None:
        """Notes nothing."""


class ForgetsWhoTells(Transactions):
    """The producer of the last marker goes although the marker is not committed."""

    __slots__ = ()

    @property
    def last_marker_producer(self) -> int:
        return NO_PRODUCER


def states_with(transactions: type[Transactions]) -> Callable[[], ProducerStates]:
    """Producer states whose transactions are these."""

    def states() -> ProducerStates:
        made = ProducerStates()
        made.transactions = transactions()
        made._open = made.transactions.open
        return made

    return states


# ---- leaders ----


class AsksForNoOldClient(VerifiedAppends):
    """Only what leaders add to transactions is verified, not what clients say that they have added."""

    __slots__ = ()

    def takes(self, group: AppendGroup) -> bool:
        adds = group.transaction is not None and group.transaction.adds_partition
        return adds and super().takes(group)


# ---- coordinators ----


class AnswersAtOnce(TransactionCoordinator):
    """Answers do not wait until the decision is committed."""

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        super().become_leader(partition, leader_epoch)
        host: Any = self._hosts.by_partition[partition]
        host.after_commit = lambda tell, _now_ms=None: tell(0)


class SendsMarkersAtOnce(TransactionCoordinator):
    """Markers do not wait until the decision is committed."""

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        super().become_leader(partition, leader_epoch)
        host: Any = self._hosts.by_partition[partition]
        host._follow_ups = self._now

    def _now(self, *shard: Any) -> Iterable[Any]:
        for follow_up in self._follow_ups(*shard):
            follow_up()
        return ()


class ForgetsPrepared(TransactionShard):
    """A coordinator does not complete what another one has decided."""

    def activate(self, now: Moment) -> None:
        super().activate(now)
        self.take_prepared()


class ForgetsFencing(TransactionShard):
    """A coordinator loads the epochs of transactions, but not those that InitProducerId gave."""

    def replay(self, record: TransactionRecord) -> None:
        known = self.images.get(record.key)
        if known is None or record.value is None or record.value.state is not EMPTY:
            super().replay(record)


def with_shard(shard: type[TransactionShard]) -> Callable[..., TransactionCoordinator]:
    """Coordinators whose shards are these."""

    def coordinator(**parts: Any) -> TransactionCoordinator:
        made = TransactionCoordinator(**parts)
        hosts: Any = made._hosts
        new_shard = partial(
            shard, parts["config"], parts["new_producer_id"], parts["transaction_version"]
        )
        hosts._parts = replace(hosts._parts, kind=replace(hosts._parts.kind, new_shard=new_shard))
        return made

    return coordinator
