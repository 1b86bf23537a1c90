"""Fetch across the hop: one `FetchWork` per (client request, node), answered once."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
from highwater.model.ids import InstanceId, TopicId

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

    Records of a partition of up to `copied_bytes_max` bytes are returned as bytes while there is
    `memory`; without one, records stay in files.
    """

    __slots__ = (
        "call_id",
        "cancelled",
        "copied_bytes_max",
        "done",
        "instance",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "memory",
        "min_bytes",
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
    ) -> None:
        self.instance = instance
        self.partitions = partitions
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.done = done
        self.memory = memory
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
        )


def answer_away(work: FetchWork) -> None:
    """Answers a fetch whose node is away: clients refresh their metadata and fetch again."""
    work.results = [FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in work.partitions]
    work.done(work)
