"""The follower's side of one Replicate stream: what it asks one leader node for, and when.

Sans-IO: messages go in and out as bytes. Every followed partition is in one of three states:
due (the next request asks for it), asked (the leader has the question), or held (until
`ask_again`). An answer with records, an error or a divergence turns an asked partition into a held
one. Due partitions that catch up may have to wait for the throttle.

Normally one request is under way at a time. The next one is sent when the answer has been applied,
so that it acknowledges the records of that answer. If a partition becomes due while the leader has
nothing to answer yet, a second request is sent, which makes the leader answer the first at once.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from highwater.hop.framing import HopFramingError
from highwater.model.ids import TopicId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.codec import FollowerRequest, decode_response, encode_request
from highwater.partition.replication.follower.following import asked_of
from highwater.partition.replication.rows import NONE, Answered, Asked
from highwater.partition.replication.throttle import Side, Throttle
from highwater.rpc.ports import Message

MAX_WAIT_MS: Final = 500
ANSWER_BYTES_MAX: Final = 8 << 20
PARTITION_BYTES_MAX: Final = 1 << 20
UNDER_WAY_MAX: Final = 2
ASKED_MAX: Final = 1000
"""Partitions in one request; both ends handle them in one loop turn. The others come later."""

Key = tuple[TopicId, int]


class _Followed:
    """A partition and its unanswered question (None while it is due or held)."""

    __slots__ = ("asked", "bytes_only", "leader_end", "replica")

    def __init__(self, replica: PartitionReplica) -> None:
        self.replica = replica
        self.asked: Asked | None = None
        self.leader_end = NONE
        """The leader's log end offset in its last answer."""
        self.bytes_only = False
        """Reading its records from the leader's files has failed."""

    @property
    def behind(self) -> bool:
        """False if it had everything when the leader last answered."""
        return self.leader_end == NONE or self.replica.log.log_end_offset < self.leader_end


class FetchSession:
    """The partitions that this node follows from one leader; lives longer than a connection."""

    def __init__(
        self, throttle: Throttle | None = None, *, accepts_references: bool = False
    ) -> None:
        """`throttle` is the node's for followers; `accepts_references`: answers may name files."""
        self._throttle = throttle or Throttle(Side.FOLLOWER)
        self._accepts_references = accepts_references
        self._followed: dict[Key, _Followed] = {}
        self._due: dict[Key, None] = {}
        self._throttled: dict[Key, None] = {}
        """Due partitions that wait for the throttle, longest first."""
        self._throttled_until_ms = 0
        self._named: set[Key] = set()
        """Partitions that may be in the leader's session."""
        self._forgotten: dict[Key, None] = {}
        self._last_id = 0
        self._under_way: deque[int] = deque()

    def __len__(self) -> int:
        """How many partitions are followed."""
        return len(self._followed)

    @property
    def waits(self) -> bool:
        """Whether an answer of the leader is outstanding."""
        return bool(self._under_way)

    @property
    def throttled_until_ms(self) -> int | None:
        """When to call `next_request` again at the latest; None if the throttle holds nothing."""
        return self._throttled_until_ms if self._throttled else None

    def replicas(self) -> Iterator[PartitionReplica]:
        """All followed replicas."""
        return (followed.replica for followed in self._followed.values())

    # ---- followed partitions ----

    def add(self, replica: PartitionReplica, *, due: bool = True) -> None:
        """Follow a replica from its log's end, in its present epoch; if `due`, ask at once."""
        key = (replica.topic_id, replica.partition)
        self._followed[key] = _Followed(replica)
        self._throttled.pop(key, None)
        if due:
            self._due[key] = None
        else:
            self._due.pop(key, None)

    def remove(self, replica: PartitionReplica) -> None:
        """Stop following the replica; harmless if it was not followed."""
        key = (replica.topic_id, replica.partition)
        followed = self._followed.get(key)
        if followed is None or followed.replica is not replica:
            return
        del self._followed[key]
        self._due.pop(key, None)
        self._throttled.pop(key, None)
        if key in self._named:
            self._named.discard(key)
            self._forgotten[key] = None

    def ask_again(self, replica: PartitionReplica) -> None:
        """Make a held replica due; any other state stays as it is."""
        key = (replica.topic_id, replica.partition)
        followed = self._followed.get(key)
        if followed is None or followed.replica is not replica or followed.asked is not None:
            return
        if key not in self._throttled:
            self._due[key] = None

    def ask_for_bytes(self, replica: PartitionReplica) -> None:
        """As `ask_again`, but until it has caught up ask for bytes, not places in files."""
        followed = self._followed.get((replica.topic_id, replica.partition))
        if followed is not None and followed.replica is replica:
            followed.bytes_only = True
            self.ask_again(replica)

    # ---- the stream ----

    def begin(self) -> None:
        """Start on a new connection: the leader has no session yet."""
        self._last_id = 0
        self._under_way.clear()
        self._named.clear()
        self._forgotten.clear()
        for key, followed in self._followed.items():
            if followed.asked is not None:
                followed.asked = None
                self._due[key] = None

    def next_request(self, node_id: int, node_epoch: int, now_ms: int = 0) -> bytes | None:
        """The message to send now, or None; `now_ms` is the throttle's clock.

        If all partitions are held and none is asked for, there is no message.
        """
        if self._throttled and now_ms >= self._throttled_until_ms:
            self._release(now_ms)
        if len(self._under_way) >= (UNDER_WAY_MAX if self._due else 1):
            return None
        asked = self._ask_due(now_ms)
        if not asked and (self._under_way or not self._waiting()):
            return None
        forgotten = tuple(self._forgotten)
        self._forgotten.clear()
        self._last_id += 1
        self._under_way.append(self._last_id)
        return encode_request(
            FollowerRequest(
                request_id=self._last_id,
                node_id=node_id,
                node_epoch=node_epoch,
                asked=asked,
                forgotten=forgotten,
                max_wait_ms=MAX_WAIT_MS,
                max_bytes=ANSWER_BYTES_MAX,
                partition_max_bytes=PARTITION_BYTES_MAX,
                accepts_references=self._accepts_references,
                bytes_only=self._bytes_only(asked),
            )
        )

    def _ask_due(self, now_ms: int) -> list[Asked]:
        questions: list[Asked] = []
        due = self._due
        keys = list(due) if len(due) <= ASKED_MAX else list(islice(due, ASKED_MAX))
        if self._throttle.partitions:
            keys = self._let_through(keys, now_ms)
        for key in keys:
            followed = self._followed[key]
            asked = asked_of(followed.replica)
            if asked is not None:
                followed.asked = asked
                self._named.add(key)
                # The new question replaces the old one at the leader, so nothing is to forget.
                self._forgotten.pop(key, None)
                questions.append(asked)
            del due[key]
        return questions

    def _bytes_only(self, asked: list[Asked]) -> list[Key]:
        """The asked partitions that need bytes; one that has caught up tries places again."""
        if not self._accepts_references:
            return []
        wanted: list[Key] = []
        for one in asked:
            followed = self._followed[one[:2]]
            if followed.bytes_only:
                followed.bytes_only = followed.behind
                if followed.bytes_only:
                    wanted.append(one[:2])
        return wanted

    # ---- the throttle ----

    def catches_up(self, key: Key) -> bool:
        """Whether the throttle applies to the partition: it is listed there and not in sync."""
        followed = self._followed.get(key)
        if followed is None or key not in self._throttle.partitions:
            return False
        core = followed.replica.core
        return followed.behind and core.node not in core.isr.committed

    def _let_through(self, keys: list[Key], now_ms: int) -> list[Key]:
        """The partitions to ask for now; each may bring up to PARTITION_BYTES_MAX.

        The others go to the end of the throttled ones.
        """
        throttle = self._throttle
        room = throttle.room(now_ms)
        passing: list[Key] = []
        for key in keys:
            if self.catches_up(key):
                if room <= 0:
                    if not self._throttled:
                        self._throttled_until_ms = now_ms + throttle.wait_ms(now_ms)
                    self._throttled[key] = None
                    throttle.holds += 1
                    del self._due[key]
                    continue
                room -= PARTITION_BYTES_MAX
            passing.append(key)
        return passing

    def _release(self, now_ms: int) -> None:
        """Make partitions due again if the throttle has room, or no longer applies to them."""
        throttle = self._throttle
        room = throttle.room(now_ms)
        for key in list(self._throttled):
            if self.catches_up(key):
                if room <= 0:
                    continue
                room -= PARTITION_BYTES_MAX
            del self._throttled[key]
            self._due[key] = None
        self._throttled_until_ms = now_ms + throttle.wait_ms(now_ms)

    def _waiting(self) -> bool:
        return any(followed.asked is not None for followed in self._followed.values())

    def answered(self, message: Message) -> list[Answered]:
        """Decode an answer. Raises HopFramingError unless it answers the oldest request."""
        request_id, rows = decode_response(message)
        if not self._under_way or request_id != self._under_way[0]:
            raise HopFramingError(f"request {request_id} is answered, {self._under_way} wait")
        self._under_way.popleft()
        return rows

    def take(self, answered: Answered) -> PartitionReplica | None:
        """The replica that a row answers; None if the question was dropped or is another now."""
        followed = self._followed.get((answered.topic_id, answered.partition))
        if followed is None or followed.asked is None or followed.asked.place != answered[:5]:
            return None
        if answered.error_code or answered.records or answered.diverging_epoch != NONE:
            followed.asked = None
        if not answered.error_code:
            followed.leader_end = answered.log_end_offset
        return followed.replica
