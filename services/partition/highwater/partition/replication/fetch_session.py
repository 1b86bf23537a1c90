"""The follower's side of one Replicate stream: what is asked of one leader node, and when.

Sans-IO: messages go in and out as bytes. Every followed partition is in one of three states:
due (to be asked for in the next request), asked (the leader has it), or held (until `ask_again`).
An answer with records, an error or a divergence makes an asked one held.

One request is under way at a time, as a rule: the next one follows when the answer has been
carried out, so that it acknowledges what came. When a partition becomes due while the leader waits
for something to tell, one more request is sent, and ends that wait.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from highwater.hop.framing import HopFramingError
from highwater.model.ids import TopicId
from highwater.partition.data_plane.following import asked_of
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.codec import FollowerRequest, decode_response, encode_request
from highwater.partition.replication.rows import NONE, Answered, Asked

MAX_WAIT_MS: Final = 500
ANSWER_BYTES_MAX: Final = 8 << 20
PARTITION_BYTES_MAX: Final = 1 << 20
UNDER_WAY_MAX: Final = 2

Key = tuple[TopicId, int]


class _Followed:
    """A partition and the question that the leader has; None while it is due or held."""

    __slots__ = ("asked", "replica")

    def __init__(self, replica: PartitionReplica) -> None:
        self.replica = replica
        self.asked: Asked | None = None


class FetchSession:
    """Partitions that this node follows from one other; over as many connections as it takes."""

    def __init__(self) -> None:
        self._followed: dict[Key, _Followed] = {}
        self._due: dict[Key, None] = {}
        self._named: set[Key] = set()
        """What the leader may have in its session."""
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

    def replicas(self) -> Iterator[PartitionReplica]:
        """All followed ones."""
        return (followed.replica for followed in self._followed.values())

    # ---- what is followed ----

    def add(self, replica: PartitionReplica, *, due: bool = True) -> None:
        """Follows a replica from its present place, in its present epoch; if `due`, at once."""
        key = (replica.topic_id, replica.partition)
        self._followed[key] = _Followed(replica)
        self._forgotten.pop(key, None)
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
        if key in self._named:
            self._named.discard(key)
            self._forgotten[key] = None

    def ask_again(self, replica: PartitionReplica) -> None:
        """Makes a held replica due; changes nothing for others."""
        key = (replica.topic_id, replica.partition)
        followed = self._followed.get(key)
        if followed is not None and followed.replica is replica and followed.asked is None:
            self._due[key] = None

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

    def next_request(self, node_id: int, node_epoch: int) -> bytes | None:
        """The message to send now, if there is one.

        Nothing is sent while nothing is asked: who only holds partitions has nothing to wait for.
        """
        if len(self._under_way) >= (UNDER_WAY_MAX if self._due else 1):
            return None
        asked = self._ask_due()
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
            )
        )

    def _ask_due(self) -> list[Asked]:
        questions: list[Asked] = []
        for key in self._due:
            followed = self._followed[key]
            asked = asked_of(followed.replica)
            if asked is not None:
                followed.asked = asked
                self._named.add(key)
                questions.append(asked)
        self._due.clear()
        return questions

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
        return followed.replica
