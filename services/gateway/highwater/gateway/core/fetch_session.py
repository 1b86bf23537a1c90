"""Fetch sessions (KIP-227): what clients with many partitions do not have to say again.

A session has the partitions of a client's last full fetch, as later incremental fetches have changed
them, and what the client was last told of each. Rules: Kafka's `FetchSession`,
`FetchSessionCacheShard` and `FetchContext`; here nobody is privileged, as followers fetch elsewhere.

Sessions belong to this process. A client that comes to another gateway starts anew, as with another
broker.
"""

from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from highwater.gateway.core.empty_fetch import EmptyFetchShape
from highwater.hop.fetch import FetchedPartition, FetchSet
from highwater.kafka.messages.fetch import FetchRequestFetchPartition
from highwater.model.ids import NodeId

NO_SESSION: Final = 0
"""INVALID_SESSION_ID: the fetch is not part of a session."""
FIRST_EPOCH: Final = 0
"""INITIAL_EPOCH: a full fetch that asks for a session."""
FINAL_EPOCH: Final = -1
"""A full fetch that ends its session and wants none."""
SESSION_ID_MAX: Final = 2**31 - 1

Link = TypeVar("Link")
"""The link to a node, which only the Fetch path reads."""

Key: TypeAlias = tuple[str | bytes, int]
"""The name of a topic, or from version 13 on its id, and the number of a partition."""


def next_epoch(epoch: int) -> int:
    """The epoch after this one; after the largest comes 1 (`FetchMetadata.nextEpoch`)."""
    return 1 if epoch == SESSION_ID_MAX else epoch + 1


class CachedPartition(Generic[Link]):
    """One partition of a session: what the client asks for, and what it was last told."""

    __slots__ = (
        "asked",
        "high_watermark",
        "last_stable_offset",
        "link",
        "log_start_offset",
        "order",
        "place",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: bytes, asked: FetchRequestFetchPartition, place: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.place = place
        """Its number in the session, which no other partition ever gets; 32 bits on the hop."""
        self.order = 0
        """Of all that may be sent, partitions with lower ones go first."""
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.link: Link | None = None
        """The link whose fetch set has the partition; None if there is no leader to ask."""

    @property
    def key(self) -> Key:
        """Its key in the session."""
        return self.topic or self.topic_id, self.asked.partition

    def tell(self, result: FetchedPartition) -> bool:
        """True if the client has to be told this; it is told then.

        Kafka's `CachedPartition.maybeUpdateResponseData`, and the last stable offset.
        """
        high_watermark = result.high_watermark
        news = (
            result.nbytes > 0
            or high_watermark != self.high_watermark
            or result.last_stable_offset != self.last_stable_offset
            or result.log_start_offset != self.log_start_offset
            or result.diverging_epoch >= 0
            or result.preferred_replica >= 0
        )
        self.high_watermark = high_watermark
        self.last_stable_offset = result.last_stable_offset
        self.log_start_offset = result.log_start_offset
        if result.error_code:
            self.high_watermark = -1  # When the error is over, the partition is told again.
            return True
        return news


class OngoingFetch(Protocol):
    """A fetch of a session that is under way."""

    def overtaken(self) -> None:
        """The client has sent the session's next fetch, on another connection."""
        ...


class FetchSession(Generic[Link]):
    """One session. Lives until its client ends it, or the cache gives its memory to another."""

    __slots__ = (
        "by_id",
        "created_ms",
        "denied",
        "empty",
        "epoch",
        "errors",
        "evictable",
        "nbytes",
        "near",
        "next_order",
        "next_place",
        "owner",
        "partitions",
        "places",
        "reply",
        "routed_at",
        "session_id",
        "sets",
        "used_ms",
    )

    def __init__(self, session_id: int, owner: object, by_id: bool, now_ms: int) -> None:
        """`owner` is the client as far as it may not change; `by_id` that topics have ids."""
        self.session_id = session_id
        self.owner = owner
        self.by_id = by_id
        self.epoch = next_epoch(FIRST_EPOCH)
        """That of the next fetch."""
        self.created_ms = self.used_ms = now_ms
        self.partitions: dict[Key, CachedPartition[Link]] = {}
        self.places: dict[int, CachedPartition[Link]] = {}
        self.next_place = 0
        self.next_order = 0
        self.sets: dict[Link, FetchSet] = {}
        self.errors: dict[int, int] = {}
        """Kafka's error code of each place that no node can be asked for."""
        self.denied: frozenset[str] = frozenset()
        """The names of topics that the client may not read."""
        self.near: tuple[NodeId, ...] = ()
        """The nodes in the client's rack, by which its partitions' nodes were chosen (KIP-392)."""
        self.routed_at = -1
        """How often the routes had changed when these were looked up."""
        self.reply: OngoingFetch | None = None
        """The fetch of this session that is under way."""
        self.empty: EmptyFetchShape | None = None
        """The shape of its last fetch that named no partition."""
        self.nbytes = 0
        """As counted in the budget."""
        self.evictable: tuple[int, int] | None = None
        """(size, id) while the cache may evict it for a larger one."""

    def ask(
        self, topic: str, topic_id: bytes, asked: FetchRequestFetchPartition
    ) -> CachedPartition[Link]:
        """Adds a partition, or changes what is asked of it."""
        key: Key = (topic or topic_id, asked.partition)
        cached = self.partitions.get(key)
        if cached is None:
            self.next_place += 1
            cached = CachedPartition(topic, topic_id, asked, self.next_place)
            self.partitions[key] = self.places[cached.place] = cached
            self._put_last(cached)
        else:
            cached.asked = asked
        return cached

    def forget(self, key: Key) -> None:
        """Removes a partition that the client names as forgotten, if it is there."""
        cached = self.partitions.pop(key, None)
        if cached is not None:
            del self.places[cached.place]
            self.errors.pop(cached.place, None)
            if cached.link is not None:
                self.sets[cached.link].drop(cached.place)

    def sent(self, cached: CachedPartition[Link]) -> None:
        """Records of the partition were sent: now it is the last of all."""
        self._put_last(cached)

    def _put_last(self, cached: CachedPartition[Link]) -> None:
        self.next_order += 1
        cached.order = self.next_order
