"""Groups of appends that the node itself writes, not a client (Kafka's `AppendOrigin.COORDINATOR`)."""

from collections.abc import Sequence

from highwater.hop.append import NO_BATCH, AppendGroup, AppendOwner
from highwater.kafka.records.builder import end_transaction_marker
from highwater.model.ids import InstanceId, TopicId
from highwater.model.transactions import TransactionMarker
from highwater.partition.core.replica import ACKS_ALL

_MARKER_BYTES = 78
_NOBODYS = InstanceId("")


class NodeGroup(AppendGroup):
    """Batches of a coordinator: one with a producer id, of offsets in a transaction, has no sequence,
    and may begin the transaction here, because the coordinator has verified that.

    acks=all, without a deadline; of no instance, so that it is nobody's traffic.
    """

    __slots__ = ()

    def __init__(
        self, topic_id: TopicId, partition: int, leader_epoch: int, owner: AppendOwner
    ) -> None:
        super().__init__(topic_id, partition, leader_epoch, ACKS_ALL, _NOBODYS, owner)


class MarkerGroup(NodeGroup):
    """Markers of several transactions, whose batches are made when they are appended with one write.

    One that aborts is alone: its entry in the index of transactions belongs into its segment.
    """

    __slots__ = ("markers",)

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        leader_epoch: int,
        owner: AppendOwner,
        markers: Sequence[TransactionMarker],
    ) -> None:
        super().__init__(topic_id, partition, leader_epoch, owner)
        assert len(markers) == 1 or all(marker.committed for marker in markers)
        self.batches = [NO_BATCH] * len(markers)
        self.nbytes = _MARKER_BYTES * len(markers)
        self.markers = markers


def marker_batch(
    marker: TransactionMarker, offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """The control batch of a marker at its place in the log."""
    return end_transaction_marker(
        commit=marker.committed,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp_ms=timestamp_ms,
        base_offset=offset,
        leader_epoch=leader_epoch,
    )
