"""The follower's side of one Replicate stream: what is asked of one leader node, and when.

Sans-IO: messages go in and out as bytes. Every followed partition is in one of three states:
due (to be asked for in the next request), asked (the leader has it), or held (until `ask_again`).
An answer with records, an error or a divergence makes an asked one held. Of those that are due and
catch up, the throttle makes some wait for their turn.

One request is under way at a time, as a rule: the next one follows when the answer has been
carried out, so that it acknowledges what came. When a partition becomes due while the leader waits
for something to tell, one more request is sent, and ends that wait.
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

MAX_WAIT_MS: Final = 500
ANSWER_BYTES_MAX: Final = 8 << 20
PARTITION_BYTES_MAX: Final = 1 << 20
UNDER_WAY_MAX: Final = 2
ASKED_MAX: Final = 1000
"""Partitions in one request: each end looks at them in one turn of its loop. The others follow."""

Key = tuple[TopicId, int]


class _Followed:
    """A partition and the question that the leader has; None while it is due or held."""

    __slots__ = ("asked", "bytes_only", "leader_end", "replica")

    def __init__(self, replica: PartitionReplica) -> None:
        self.replica = replica
        self.asked: Asked | None = None
        self.leader_end = NONE
        """The leader's log end offset in its last answer."""
        self.bytes_only = False
        """Its records were not found in the leader's files, or not in memory."""

    @property
    def behind(self) -> bool:
        """True unless it had all that the leader had when that answered last."""
        return self.leader_end == NONE or self.replica.log.log_end_offset < self.leader_end


class FetchSession:
    """Partitions that this node follows from one other; over as many connections as it takes."""

    def __init__(
        self, throttle: Throttle | None = None, *, accepts_references: bool = False
    ) -> None:
        """`throttle` is the node's for followers; whether records may come as places in files."""
        self._throttle = throttle or Throttle(Side.FOLLOWER)
        self._accepts_references = accepts_references
        self._followed: dict[Key, _Followed] = {}
        self._due: dict[Key, None] = {}
        self._throttled: dict[Key, None] = {}
        """Due, but for the throttle; longest first."""
        self._throttled_until_ms = 0
        self._named: set[Key] = set()
        """Partitions that the leader may have in its session."""
        self._forgotten: dict[Key, None] = {}
        self._last_id = 0
        self._under_way: deque[int] = deque()

    def __len__(self) -> int:
        """How many partitions are followed."""
        return len(self._followed)

    @property
    def waits(self) -> bool:
        """Whether the leader owes an answer."""
        return bool(self._under_way)

    @property
    def throttled_until_ms(self) -> int | None:
        """When to look for a next request at the latest, if the throttle holds anything back."""
        return self._throttled_until_ms if self._throttled else None

    def replicas(self) -> Iterator[PartitionReplica]:
        """All followed ones."""
        return (followed.replica for followed in self._followed.values())

    # ---- followed partitions ----

    def add(self, replica: PartitionReplica, *, due: bool = True) -> None:
        """Follows a replica from its present place, in its present epoch; if `due`, at once."""
        key = (replica.topic_id, replica.partition)
        self._followed[key] = _Followed(replica)
        self._throttled.pop(key, None)
        if due:
            self._due[key] = None
        else:
            self._due.pop(key, None)

    def remove(self, replica: PartitionReplica) -> None:
        """Follows it no longer; harmless if it was not."""
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
        """Makes a held replica due; changes nothing for others."""
        key = (replica.topic_id, replica.partition)
        followed = self._followed.get(key)
        if followed is None or followed.replica is not replica or followed.asked is not None:
            return
        if key not in self._throttled:
            self._due[key] = None

    def ask_for_bytes(self, replica: PartitionReplica) -> None:
        """As `ask_again`; places in files are no use to it until it has caught up."""
        followed = self._followed.get((replica.topic_id, replica.partition))
        if followed is not None and followed.replica is replica:
            followed.bytes_only = True
            self.ask_again(replica)

    # ---- the stream ----

    def begin(self) -> None:
        """Another connection: the leader knows nothing of the session."""
        self._last_id = 0
        self._under_way.clear()
        self._named.clear()
        self._forgotten.clear()
        for key, followed in self._followed.items():
            if followed.asked is not None:
                followed.asked = None
                self._due[key] = None

    def next_request(self, node_id: int, node_epoch: int, now_ms: int = 0) -> bytes | None:
        """The message to send now, if there is one; `now_ms` is the throttle's clock.

        Nothing is sent while nothing is asked: a session with held partitions waits for nothing.
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
                # A new question takes the place of the one before; until then, that has to go.
                self._forgotten.pop(key, None)
                questions.append(asked)
            del due[key]
        return questions

    def _bytes_only(self, asked: list[Asked]) -> list[Key]:
        """The partitions that need bytes; one that has caught up tries places again."""
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
        """True if the throttle is for the partition: it is named there, and not in sync."""
        followed = self._followed.get(key)
        if followed is None or key not in self._throttle.partitions:
            return False
        core = followed.replica.core
        return followed.behind and core.node not in core.isr.committed

    def _let_through(self, keys: list[Key], now_ms: int) -> list[Key]:
        """Those that may be asked for; each may bring as much as a partition's part of an answer.

        The others wait behind those that wait already.
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
        """Makes those due again that have their turn, or are not throttled any more."""
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

    def answered(self, message: bytes) -> list[Answered]:
        """The rows of an answer. Raises HopFramingError if it is none to the oldest request."""
        request_id, rows = decode_response(message)
        if not self._under_way or request_id != self._under_way[0]:
            raise HopFramingError(f"request {request_id} is answered, {self._under_way} wait")
        self._under_way.popleft()
        return rows

    def take(self, answered: Answered) -> PartitionReplica | None:
        """Whom a row is for; None if that partition is not asked for so (any more)."""
        followed = self._followed.get((answered.topic_id, answered.partition))
        if followed is None or followed.asked != answered[:5]:
            return None
        if answered.error_code or answered.records or answered.diverging_epoch != NONE:
            followed.asked = None
        if not answered.error_code:
            followed.leader_end = answered.log_end_offset
        return followed.replica
