"""What a coordinator needs from the log of its topic's partitions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from highwater.model.ids import TopicId
from highwater.model.transactions import TransactionMarker
from highwater.partition.core.verifications import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Identifies a partition's log and its directory, for files kept beside it."""

    topic_id: TopicId
    partition: int
    directory: str
    """Belongs to this partition alone; removed with the topic."""
    snapshot_age_ms_max: int | None = None
    """Ignore an older snapshot: compaction may already have removed tombstones that it has not
    seen. None: the log has everything."""


class CoordinatorLog(Protocol):
    """The partitions of one coordinator topic that this node leads. Called on the event loop."""

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """Append one record batch with acks=all; never blocks and never raises.

        `on_committed(error_code, base_offset)` is called exactly once, on the loop, now or later:
        with 0 and the batch's first offset when the high watermark has passed the batch, or with
        a Kafka error code (6 or 74 no longer leader, 19, 20, 7, 56, 10, 18). Batches of one
        partition are committed in the order of the calls. Only the end of the leadership ends
        the wait for the high watermark; the batch may then be in the log or not.
        """
        ...

    def append_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """As `append`, for the control batch that ends a producer's transaction: one record."""
        ...

    def refusal(self, partition: int, leader_epoch: int) -> int:
        """The error code with which `append` would fail right now, 0 if it would not."""
        ...

    def refuse_producer(self, partition: int, producer_id: int, producer_epoch: int) -> int:
        """The error code with which `append` would fail because of the producer of a batch in a
        transaction: INVALID_PRODUCER_EPOCH; 0 if it would not.
        """
        ...

    def in_transaction(self, partition: int, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open in the log, in this epoch."""
        ...

    def ask_verification(
        self, partition: int, producer_id: int, producer_epoch: int
    ) -> Verification:
        """The transaction coordinator is asked for the producer."""
        ...

    def grant_verification(
        self, partition: int, producer_id: int, verification: Verification
    ) -> bool:
        """It has agreed; False if a marker or the end of the leadership came before."""
        ...

    def end_verification(self, partition: int, marker: TransactionMarker) -> None:
        """A marker is about to be appended."""
        ...

    def refuse_marker(self, partition: int, marker: TransactionMarker) -> int:
        """The error code with which `append` would fail because of this marker, 0 if it would not."""
        ...

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`, up to the end of the log.

        Empty at the end; otherwise at least one batch, even if it is larger than `max_bytes`.
        Raises a HighwaterError if the partition is no longer here, and a StorageError if the log
        cannot be read; the node has then noted the failure.
        """
        ...

    def recheck(self, partition: int, offset: int) -> None:
        """Check the log for damage, because `read` returned a broken batch at `offset`.

        If it is damaged, another replica that has the records takes over. May raise what `read`
        raises.
        """
        ...

    def place(self, partition: int) -> LogPlace:
        """Where the log is; raises a HighwaterError if the partition is no longer here."""
        ...

    def log_start_offset(self, partition: int) -> int:
        """The first offset that is left."""
        ...

    def log_end_offset(self, partition: int) -> int:
        """The offset of the next record, committed or not."""
        ...

    def high_watermark(self, partition: int) -> int:
        """Everything below is committed; on a new leader it may lag."""
        ...

    def when_committed(self, partition: int, offset: int, tell: Callable[[], object]) -> None:
        """Call `tell` once, now or later, when the high watermark is at least `offset`.

        Never calls it if the leadership ends first, or if a later call for the same partition
        replaces it. `tell` must be cheap and may not raise.
        """
        ...

    def epoch_before(self, partition: int, offset: int) -> int:
        """The leader epoch of the record before `offset`; -1 when the log does not know it."""
        ...
