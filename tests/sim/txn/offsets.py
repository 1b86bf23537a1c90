"""Offsets that applications commit for their groups in transactions, and clients that fetch them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import add_offsets_to_txn, offset_fetch, txn_offset_commit
from highwater.kafka.messages.offset_fetch import OffsetFetchRequestOffsetFetchRequestTopic
from highwater.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTxnOffsetCommitRequestTopic,
)
from highwater.kafka.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, iter_batches
from highwater.kafka.records.record import read_records
from highwater.model.ids import GROUP_METADATA_TOPIC
from highwater.partition.groups.core.durable import OffsetRecord
from highwater.partition.groups.records import decode
from tests.sim.clients import Endpoint
from tests.sim.txn.batches import header_of
from tests.sim.txn.leaders import Leaders

if TYPE_CHECKING:
    from tests.sim.txn.cluster import Cluster

SOURCE = "source"
"""The topic whose offsets are committed; nobody has it."""
RECORD_BYTES_MAX = 4_096
STABLE_FROM = 7
FETCH_EVERY_MS = 150


def group_of(transactional_id: str) -> str:
    """Each application's own."""
    return f"group-of-{transactional_id}"


def add_request(name: str, producer_id: int, epoch: int) -> tuple[Any, int, Any]:
    """AddOffsetsToTxn, which producers send before transaction.version 2."""
    wanted = add_offsets_to_txn.AddOffsetsToTxnRequest(name, producer_id, epoch, group_of(name))
    return add_offsets_to_txn, 3, wanted


def commit_request(
    name: str, producer_id: int, epoch: int, offset: int, *, old: bool
) -> tuple[Any, int, Any]:
    """TxnOffsetCommit of one offset."""
    place = TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(0, offset)
    wanted = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group_of(name),
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(SOURCE, [place])],
    )
    return txn_offset_commit, 3 if old else 5, wanted


def pending_offset(data: bytes) -> int | None:
    """The offset that a batch commits in a transaction; None if it is another batch."""
    attributes = header_of(data)[5]
    if not attributes & TRANSACTIONAL_BIT or attributes & CONTROL_BIT:
        return None
    (record,) = read_records(next(iter_batches(data)), RECORD_BYTES_MAX)
    found = decode(record.key, record.value)
    assert isinstance(found, OffsetRecord)
    assert found.value is not None
    return found.value.offset


class OffsetFetcher(Endpoint):
    """Asks for one group's offset, which has to be stable, and tells the observer."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.worlds[GROUP_METADATA_TOPIC], cluster.new_client())
        self.world.processes[self.number] = self
        self._cluster = cluster
        self._leaders = Leaders(cluster.worlds)
        self.name = name
        self._request = 0
        self.found = -1
        """The newest answer; -1 before the first commit."""
        topic = OffsetFetchRequestOffsetFetchRequestTopic(SOURCE, [0])
        wanted = offset_fetch.OffsetFetchRequest(
            group_id=group_of(name), topics=[topic], require_stable=True
        )
        self._body = bytes(offset_fetch.encode_request(wanted, STABLE_FROM))

    def poll(self) -> None:
        leader = self._leaders.of(GROUP_METADATA_TOPIC)
        self._request += 1
        if leader is not None:
            asked = (self.number, self._request, offset_fetch.API_KEY, STABLE_FROM, self._body)
            args = ("on_request", asked)
            self.world.network.send(self.number, leader[0], "on_part", args)
        self.world.after(FETCH_EVERY_MS, self.poll)

    def on_response(self, request: int, code: int, body: bytes) -> None:
        if request != self._request or code:
            return
        response = offset_fetch.decode_response(body, 0, STABLE_FROM)
        if response.error_code:
            return
        (topic,) = response.topics
        (one,) = topic.partitions
        if one.error_code:
            assert one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            return
        self.found = one.committed_offset
        self._cluster.observer.fetched_offset(self.name, one.committed_offset)
