"""What the group coordinator needs of the log of its topic's partitions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from highwater.model.ids import TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Which log a partition has, and where: for what is kept beside it."""

    topic_id: TopicId
    partition: int
    directory: str
    """Of this partition alone; it is gone once the topic is deleted."""
    snapshot_age_ms_max: int | None = None
    """A deletion that a snapshot of this age has not heard of may be gone from the log, too, as
    compaction keeps them for a time only. None: the log has everything."""


class CoordinatorLog(Protocol):
    """The partitions of one coordinator topic that this node leads. Called on the event loop."""

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        """Append one record batch with acks=all semantics; never blocks and never raises.

        `on_committed(error_code, base_offset)` is called exactly once, on the loop, now or later:
        with 0 and the batch's first offset when the high watermark has passed the batch, or with
        a Kafka error code (6 or 74 no longer leader, 19, 20, 7, 56, 10, 18). Batches of one
        partition are committed in the order of the calls. Nothing ends the wait for the high
        watermark but the end of the leadership: then the batch may be in the log or not.
        """
        ...

    def refusal(self, partition: int, leader_epoch: int) -> int:
        """The error code with which `append` would fail right now, 0 if it would not."""
        ...

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`, up to the end of the log.

        Empty at the end; at least one batch otherwise, also when it is larger than `max_bytes`.
        Raises a HighwaterError when the partition is not here any more, a StorageError when the log
        cannot be read; whom that concerns has been told then.
        """
        ...

    def recheck(self, partition: int, offset: int) -> None:
        """What `read` gave for `offset` is no sound batch: looks again whether the log is damaged.

        If it is, another replica takes over where others have the records. May raise what `read`
        raises.
        """
        ...

    def place(self, partition: int) -> LogPlace:
        """Where the log is; a HighwaterError when the partition is not here any more."""
        ...

    def log_start_offset(self, partition: int) -> int:
        """The first offset that is left."""
        ...

    def log_end_offset(self, partition: int) -> int:
        """The offset of the next record, whether or not those before it are committed."""
        ...

    def high_watermark(self, partition: int) -> int:
        """Everything below is committed; a new leader's may lag behind the true one."""
        ...

    def when_committed(self, partition: int, offset: int, tell: Callable[[], object]) -> None:
        """Call `tell` once, now or later, when the high watermark is at least `offset`.

        Nobody is told if the leadership ends before, or if another one asks to be told of the
        partition. `tell` must be cheap and may not raise.
        """
        ...

    def epoch_before(self, partition: int, offset: int) -> int:
        """The leader epoch of the record before `offset`; -1 when the log does not know it."""
        ...
