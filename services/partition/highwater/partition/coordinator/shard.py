"""What the host needs from a shard: the pure state of one partition of a coordinator's topic."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from highwater.partition.coordinator.core.values import Moment, Reply, ResponseT
from highwater.partition.coordinator.records import RecordT

CapturedT_co = TypeVar("CapturedT_co", covariant=True)


class Captured(Protocol[CapturedT_co]):
    """A copy of a shard's durable state, which nothing changes any more; read on a thread."""

    def records(self) -> Iterator[CapturedT_co]:
        """The shortest list of records that leads to this state; no tombstones."""
        ...


class Shard(Protocol[RecordT, ResponseT]):
    """The state of one partition. It does no I/O and every method returns at once.

    Lifecycle: `replay` every record of the log, `activate` once, then calls. After each call and
    each `expire` the host takes `take_records` (to append, in order) and `take_replies`. If an
    append fails, or a method raises, the host discards the shard and loads another.
    """

    def replay(self, record: RecordT) -> None:
        """Apply a record while loading."""
        ...

    def activate(self, now: Moment) -> None:
        """Begin to serve, after the last record."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When the host must call `expire` next, on the monotonic clock."""
        ...

    def expire(self, now: Moment) -> None:
        """Run every timer that is due."""
        ...

    def take_records(self) -> list[RecordT]:
        """Take the records since the last call, already replayed, to append in this order."""
        ...

    def take_replies(self) -> list[Reply[ResponseT]]:
        """Take the answers to parked calls since the last call; tokens are the calls."""
        ...

    def is_parked(self, token: object) -> bool:
        """Whether this call still waits for its answer."""
        ...

    def parked_tokens(self) -> list[object]:
        """Tokens of all parked calls, for when the shard is discarded."""
        ...

    def forget_call(self, token: object, now: Moment) -> None:
        """Drop a parked call without an answer: its client is gone, or it waited too long."""
        ...

    def capture(self) -> Captured[RecordT]:
        """Copy the durable state, so that later records do not change the copy."""
        ...
