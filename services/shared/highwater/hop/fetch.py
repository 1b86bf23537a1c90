"""Fetch across the hop: one `FetchWork` per (client request, node), answered once."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
from highwater.model.ids import NO_NODE, InstanceId, NodeId, TopicId

READ_COMMITTED: Final = 1
BUFFERS: Final = (bytes, bytearray, memoryview)
"""Types of records in memory; others are ranges of files."""
SMALL_RANGE: Final = 32 * 1024
"""Up to this size, one copy into the reply costs less than a sendfile with its two sends (measured)."""


class FetchPartition(NamedTuple):
    """A request for one partition. Epochs are the client's, -1 if it sent none."""

    topic_id: TopicId
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int


class SetChanges(NamedTuple):
    """What a fetch of a set has to tell the node first."""

    anew: bool
    """The node knows nothing of the set, or has to forget what it knows."""
    missed: bool
    """The answer before did not reach the client: what it told is to be told again."""
    places: list[int]
    """Partitions that are new, or asked for in another way; what is asked is in `FetchSet.asked`."""
    dropped: list[int]


class FetchSet:
    """The partitions of a fetch session that one node leads: kept at both ends, so that a fetch names
    only those that have changed (KIP-227, between gateway and node).

    The gateway's end says what is asked (`update`, `drop`). Whoever serves a fetch takes the changes
    since the last one (`changes`), and keeps in `at_node` or under `set_id` what it knows of the set.
    A place is the number of a partition in its session, and of no other one; a partition whose leader
    moves away and back comes back under it. The set lives as long as its fetch session needs the node,
    or at a node until its gateway ends it.
    """

    __slots__ = ("_changed", "_dropped", "_known_by", "asked", "at_node", "set_id", "taken")

    def __init__(self) -> None:
        self.asked: dict[int, FetchPartition] = {}
        """All partitions of the set, by place."""
        self.at_node: object | None = None
        """The node's own state, where the node is in this process."""
        self.set_id = 0
        """The number of the set on its stream, where the node is not."""
        self.taken = True
        """False from the start of a fetch until its answer is taken."""
        self._changed: dict[int, bool] = {}
        """What the node has to be told of, and whether it does not have the place yet."""
        self._dropped: dict[int, None] = {}
        self._known_by: object | None = None

    def update(self, place: int, asked: FetchPartition) -> None:
        """Adds a partition, or changes what is asked of it."""
        if self._known_by is not None:
            if place in self._dropped:
                del self._dropped[place]
                self._changed[place] = False
            elif place not in self._changed:
                self._changed[place] = place not in self.asked
        self.asked[place] = asked

    def drop(self, place: int) -> None:
        """Removes a partition."""
        del self.asked[place]
        if self._known_by is not None:
            is_new = self._changed.pop(place, False)
            if not is_new:
                self._dropped[place] = None

    def forget(self) -> None:
        """The node may not know what it was told; the next fetch tells everything."""
        self._changed.clear()
        self._dropped.clear()
        self._known_by = None

    def restart(self) -> None:
        """Removes all partitions; the set is then as a new one."""
        self.asked.clear()
        self.forget()

    def known_by(self, by: object) -> bool:
        """True if `by` has served a fetch of the set, so it has to hear of the set's end."""
        return self._known_by is by

    def changes(self, by: object) -> SetChanges:
        """What to tell `by`, the stream or data plane that serves the fetch; it is told then."""
        if self._known_by is by:
            told = SetChanges(False, not self.taken, list(self._changed), list(self._dropped))
        else:
            told = SetChanges(True, False, list(self.asked), [])
            self._known_by = by
        self.taken = False
        self._changed.clear()
        self._dropped.clear()
        return told


class FileRange(Protocol):
    """Record batches in a segment file; the sender calls `release` once."""

    fd: int
    position: int
    length: int

    def release(self) -> None:
        """Allows the file to close; the range must not be used afterwards."""
        ...


class NamedRange(FileRange, Protocol):
    """A range at the node that stores it: readers on the same host can find the file."""

    log_dir: int
    """The file's log directory, as an index into those that the node registered."""
    path: str
    """Relative to the log directory."""
    inode: int


class ReplyMemory(Protocol):
    """The memory in which records wait to be sent, if they are bytes."""

    replies_scarce: bool
    """Records should stay in files, where they can."""


class FetchedPartition:
    """One partition's answer. `records` is bytes-like, or a `FileRange` (`NamedRange` at its node)."""

    __slots__ = (
        "aborted_transactions",
        "diverging_end_offset",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "nbytes",
        "next_offset",
        "preferred_replica",
        "records",
    )

    def __init__(
        self,
        error_code: int,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Buffer | FileRange = b"",
        nbytes: int = 0,
    ) -> None:
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records: Buffer | FileRange = records
        self.nbytes = nbytes
        self.next_offset = -1
        """At the node, the first offset after the records."""
        self.aborted_transactions: list[tuple[int, int]] | None = None
        """(producer id, first offset) pairs; None unless read_committed."""
        self.diverging_epoch = -1
        self.diverging_end_offset = -1
        self.leader = -1
        self.leader_epoch = -1
        self.preferred_replica: NodeId = NO_NODE
        """The follower that the client is to read from; there are no records then (KIP-392)."""

    def release(self) -> None:
        """Releases the file behind `records`, for answers that are not sent."""
        if self.nbytes and not isinstance(self.records, BUFFERS):
            self.records.release()
        self.records = b""
        self.nbytes = 0


class FetchWork:
    """One fetch at a node.

    `done(work)` is called once on the event loop, with `results` parallel to `partitions`, unless
    the node's `cancel_fetch` has set `cancelled` before. Waiting ends when `min_bytes` are
    available, when any partition has an error, or after `max_wait_ms`.

    With a `fetch_set` it asks for the set's partitions, and `partitions` is empty. `results` are then
    parallel to `answered`: the places of those partitions that may have changed.

    Records of a partition of up to `copied_bytes_max` bytes are returned as bytes while there is
    `memory`; without one, records stay in files.

    `near` has the nodes in the client's rack, if it names one (KIP-392). Such a node answers as a
    follower, too; a leader elsewhere may name one of them instead of answering with records.
    """

    __slots__ = (
        "answered",
        "call_id",
        "cancelled",
        "copied_bytes_max",
        "done",
        "fetch_set",
        "instance",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "memory",
        "min_bytes",
        "near",
        "partitions",
        "results",
        "throttle_ms",
        "waiting",
    )

    def __init__(
        self,
        *,
        instance: InstanceId,
        partitions: list[FetchPartition],
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        done: "Callable[[FetchWork], None]",
        memory: ReplyMemory | None = None,
        fetch_set: FetchSet | None = None,
        near: tuple[NodeId, ...] = (),
    ) -> None:
        self.instance = instance
        self.partitions = partitions
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.done = done
        self.memory = memory
        self.fetch_set = fetch_set
        self.near = near
        self.answered: Sequence[int] = ()
        self.copied_bytes_max = SMALL_RANGE
        self.results: list[FetchedPartition] = []
        self.cancelled = False
        self.throttle_ms = 0
        self.call_id = 0
        self.waiting: object | None = None
        """The node's own state while the work waits."""

    def again(self, max_wait_ms: int, done: "Callable[[FetchWork], None]") -> "FetchWork":
        """The same fetch, to be sent once more and to wait for `min_bytes`."""
        return FetchWork(
            instance=self.instance,
            partitions=self.partitions,
            max_wait_ms=max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation_level,
            done=done,
            memory=self.memory,
            fetch_set=self.fetch_set,
            near=self.near,
        )


def answer_away(work: FetchWork) -> None:
    """Answers a fetch whose node is away: clients refresh their metadata and fetch again."""
    asked = work.partitions
    if work.fetch_set is not None:
        work.fetch_set.forget()
        work.answered = list(work.fetch_set.asked)
        asked = list(work.fetch_set.asked.values())
    work.results = [FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in asked]
    work.done(work)
