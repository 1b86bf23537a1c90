"""The events of a replica's control path: the cluster image, answers, ticks, its own log.

Appends and fetches are not events: they are plain calls of `Replica`, because they happen for
thousands of partitions in one message. Offsets count records, times are milliseconds of any
monotonic clock, nodes are node ids, and -1 is no node.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """The partition's record as an image holds it; old and repeated ones are harmless."""

    now_ms: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int
    """min.insync.replicas of the same image: a change of it adds one to the partition epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IneligibleChanged:
    """Nodes that the controller would refuse in an ISR: fenced or draining ones."""

    nodes: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """The controller knows this incarnation of the node by this epoch."""

    node_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverAsked:
    """Another replica is to lead: append nothing more, so that it can have all of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverGivenUp:
    """No other replica was elected, or none can be: this leader goes on in the same epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagChecked:
    """Time passed: followers that have not caught up for replica.lag.time.max.ms leave the ISR."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrDue:
    """`Replica.isr_due` was seen: a proposal may be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAnswered:
    """AlterPartition was answered, with the partition as it was committed.

    The state in a refusal is not used: it comes without min.insync.replicas, as an image does not.
    """

    attempt: int
    """Of `ProposeIsr`."""
    error_code: int
    """Kafka's; 0 if the proposal was committed."""
    leader_epoch: int = -1
    """Of the answered state; -1 if a refusal came without one."""
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrUnanswered:
    """AlterPartition got no answer: the proposal may or may not have been committed, or may be yet."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """Our log diverges from the leader's (KIP-595), where `epoch` ends at `end_offset`.

    The first three fields are those of our fetch. An answer that comes again, or too late, finds
    another log end and changes nothing: cutting twice would take back what was acknowledged.
    """

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange:
    """The leader's log does not reach our fetch offset: it begins later, or ended before.

    The first three fields are those of our fetch, as in `Diverged`.
    """

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    leader_log_start_offset: int
    leader_log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated:
    """`TruncateLog` or `RestartLog` was carried out; the log now ends here."""

    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndMoved:
    """A flush has ended, so more of the log may count."""

    log_end_offset: int
    counted_end_offset: int
    """How much of it counts: what waits for a flush that flush.messages asks for does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLate:
    """A write has ended that was begun in an earlier role of this replica.

    If it leads, nothing has been appended in the present epoch, which therefore begins behind it.
    """

    leader_epoch: int
    """Of the records that were written."""
    log_end_offset: int
    counted_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsAsked:
    """A client wants the log to begin at the offset (KIP-107), which `refuse_deletion` allowed."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartKept:
    """The log start offset is on disk: after any crash the log begins there, or later."""

    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed:
    """The log cannot be used any more. Final: a new replica is made when it is opened again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRemoved:
    """The node has this replica no longer."""


Event = (
    PartitionChanged
    | IneligibleChanged
    | NodeRegistered
    | HandOverAsked
    | HandOverGivenUp
    | LagChecked
    | IsrDue
    | IsrAnswered
    | IsrUnanswered
    | Diverged
    | OutOfRange
    | LogTruncated
    | LogEndMoved
    | WrittenLate
    | DeleteRecordsAsked
    | LogStartKept
    | LogFailed
    | ReplicaRemoved
)
