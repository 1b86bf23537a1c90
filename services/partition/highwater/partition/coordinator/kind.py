"""What differs between coordinators, for the host of their shards."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from highwater.partition.coordinator.core.values import ResponseT
from highwater.partition.coordinator.records import RecordCodec, RecordT
from highwater.partition.coordinator.replies import Replies
from highwater.partition.coordinator.shard import Shard

ShardT = TypeVar("ShardT")
"""A shard as its handlers see it."""

FollowUp = Callable[[], None]
"""What a decision leads to outside of the shard; must be cheap and may not raise."""


def no_follow_ups(_shard: object, _partition: int, _leader_epoch: int) -> Iterable[FollowUp]:
    """Of a coordinator whose decisions only change its log and answer calls."""
    return ()


def nothing_more(_shard: object) -> None:
    """Of a coordinator that has nothing to add to a shard that was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind(Generic[ShardT, RecordT, ResponseT]):
    """The parameters of a host: shard, records, snapshot and replies."""

    name: str
    """Begins the names of log events and tasks: "group" for `group_shard_loaded`."""
    new_shard: Callable[[], ShardT]
    """An empty shard, to be loaded."""
    hosted: Callable[[ShardT], Shard[RecordT, ResponseT]]
    """The same shard as its host sees it. No bound of a type variable can say that every ShardT is
    a Shard of these records and responses; this function says it for one type."""
    codec: RecordCodec[RecordT]
    replies: Replies[ResponseT]
    snapshot_magic: bytes
    """The first 4 bytes of a snapshot; see `snapshot`."""
    follow_ups: Callable[[ShardT, int, int], Iterable[FollowUp]] = no_follow_ups
    """(shard, partition, leader epoch) -> what to do once all that the shard has decided so far is
    committed. Asked for after every decision; given up if the commit fails, as the shard is."""
    activated: Callable[[ShardT], None] = nothing_more
    """The shard was loaded and begins to serve."""

    def event(self, what: str) -> str:
        """The name of a log event."""
        return f"{self.name}_{what}"
