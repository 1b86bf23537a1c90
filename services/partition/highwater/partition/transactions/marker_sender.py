"""Brings the end of transactions to the partitions that they wrote to (Kafka:
`TransactionMarkerChannelManager`).

A transaction begins here when its decision is committed, and leaves when all its partitions have
the marker and the shard has noted it, or when its shard serves no longer: after a failover the next
coordinator begins again, in its own epoch. Markers that may be written twice do no harm.

Each node has at most one request under way, and what gathers meanwhile goes with the next one.
Leaders are looked up before that, and again if the image changes meanwhile. A partition without a leader, or whose leader refuses,
is tried again later and when the image changes, until it has the marker or is deleted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NO_NODE, InstanceId, NodeId, TopicId
from highwater.model.transactions import TransactionMarker
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 1.0
REQUEST_PARTITIONS_MAX: Final = 5_000
"""Of one request: 300 KB at most, and a few milliseconds of the loop at its other end."""

_NOTHING_TO_MARK: Final = frozenset(
    {
        # The partition has seen a later epoch of the producer, so nothing of this one is open.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        # Nothing can have been written there.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_EXPECTED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""While leaders change. All other codes are tried again, too, but logged, within a limit."""


class Destination(NamedTuple):
    """Where a partition's marker goes."""

    node: NodeId
    """-1 while nobody leads the partition."""
    topic_id: TopicId
    partition: int
    leader_epoch: int


class AddressedMarker(NamedTuple):
    """One marker and the partitions of one node that it goes to."""

    marker: TransactionMarker
    partitions: tuple[Destination, ...]


class MarkerPort(Protocol):
    """The way to the leaders of partitions."""

    def exists(self, instance: InstanceId, partition: TopicPartition) -> bool:
        """Whether `find` finds it, or might soon."""
        ...

    def find(self, instance: InstanceId, partition: TopicPartition) -> Destination | None:
        """Where the partition of an instance's transaction is led; None if it does not exist any more."""
        ...

    def send(
        self,
        node: NodeId,
        markers: Sequence[AddressedMarker],
        done: Callable[[Sequence[int] | None], None],
    ) -> None:
        """Writes the markers on a node; never raises.

        `done` is called once, on the loop, now or later: with Kafka's error codes, marker after
        marker and partition after partition, or with None if the node gave no answer.
        """
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class Ending:
    """A decided transaction on its way to its partitions."""

    key: TransactionKey
    marker: TransactionMarker
    waiting: set[TopicPartition]
    """The partitions without the marker."""
    is_current: Callable[[], bool]
    """Whether the shard that has decided still serves."""
    written: Callable[[TopicPartition], None]
    """A partition has the marker, or exists no longer."""
    complete: Callable[[], bool]
    """All have it; False if the shard cannot note that now."""
    pause_s: float = field(default=PAUSE_S_MIN)
    """Before the next attempt."""


class MarkerSender:
    """Of one node, for all shards of its transaction coordinator; used on one loop."""

    def __init__(
        self,
        port: MarkerPort,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        monotonic_ms: Callable[[], int],
        logger: Logger,
    ) -> None:
        """`monotonic_ms` is for the limit of log lines: a transaction may have thousands of partitions,
        and what refuses one marker refuses it every second.
        """
        self._port = port
        self._call_soon = call_soon
        self._call_later = call_later
        self._logger = logger
        self._log_limit = LogLimit(monotonic_ms)
        self._endings: dict[Ending, None] = {}
        self._due: list[tuple[Ending, set[TopicPartition]]] = []
        """To be looked up in the next turn."""
        self._queues: dict[NodeId, dict[Ending, dict[TopicPartition, Destination]]] = {}
        """What the next request of each node has."""
        self._busy: set[NodeId] = set()
        self._paused: dict[Ending, set[TopicPartition]] = {}
        self._scheduled = False
        self.written = 0
        """Markers since the start."""
        self.failures = 0
        """Attempts that failed since the start, each for one partition."""

    # -- for the owner ------------------------------------------------------------------------

    def begin(self, ending: Ending) -> None:
        """The decision is committed. Returns at once; everything happens in later turns.

        Not in the next one, in which the answers to the producers are made, but in the one behind that,
        at whose beginning they leave: producers do not wait for markers.
        """
        self._endings[ending] = None
        self._due.append((ending, set(ending.waiting)))
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn_after_answers)

    def image_changed(self) -> None:
        """Leaders may have changed: what waits for them is tried again at once."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            for ending, found in queue.items():
                self._later_this_turn(ending, set(found))
        paused, self._paused = self._paused, {}
        for ending, partitions in paused.items():
            self._later_this_turn(ending, partitions)

    @property
    def transactions(self) -> int:
        """Decided transactions that are not complete."""
        return len(self._endings)

    @property
    def waiting(self) -> int:
        """Markers that are not written."""
        return sum(len(ending.waiting) for ending in self._endings)

    # -- turns --------------------------------------------------------------------------------

    def _later_this_turn(self, ending: Ending, partitions: set[TopicPartition]) -> None:
        self._due.append((ending, partitions))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn_after_answers(self) -> None:
        self._call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        due, self._due = self._due, []
        for ending, partitions in due:
            if self._is_current(ending):
                self._enqueue(ending, partitions)
                self._finish_if_done(ending)
        for node in [node for node, queue in self._queues.items() if queue]:
            if node not in self._busy:
                self._send(node)

    def _enqueue(self, ending: Ending, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            found = self._port.find(ending.key.instance, partition)
            if found is None:
                self._has_marker(ending, partition)
            elif found.node == NO_NODE:
                self._pause(ending, {partition})
            else:
                queue = self._queues.setdefault(found.node, {})
                queue.setdefault(ending, {})[partition] = found

    def _send(self, node: NodeId) -> None:
        queue = self._queues.pop(node, {})
        markers: list[AddressedMarker] = []
        sent: list[tuple[Ending, TopicPartition]] = []
        while queue and len(sent) < REQUEST_PARTITIONS_MAX:
            ending = next(iter(queue))
            found = queue.pop(ending)
            if self._is_current(ending):
                sent += [(ending, partition) for partition in found]
                markers.append(AddressedMarker(ending.marker, tuple(found.values())))
        if queue:
            self._queues[node] = queue
        if markers:
            self._busy.add(node)
            self._port.send(node, markers, partial(self._answered, node, sent))

    def _answered(
        self,
        node: NodeId,
        sent: list[tuple[Ending, TopicPartition]],
        codes: Sequence[int] | None,
    ) -> None:
        self._busy.discard(node)
        if codes is None or len(codes) != len(sent):
            codes = [ErrorCode.REQUEST_TIMED_OUT] * len(sent)
        again: dict[Ending, set[TopicPartition]] = {}
        looked_at: Ending | None = None
        for (ending, partition), code in zip(sent, codes, strict=True):
            if ending is not looked_at:
                # Nothing ends a shard between the partitions of one transaction.
                looked_at = ending
                self._is_current(ending)
            if ending not in self._endings:
                continue
            if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                self._logger.warning(
                    "txn_marker_fenced",
                    instance=ending.key.instance,
                    transactional_id=ending.key.transactional_id,
                    coordinator_epoch=ending.marker.coordinator_epoch,
                )
                # A later coordinator is there, and this node will hear of it.
                del self._endings[ending]
            elif code == ErrorCode.NONE or code in _NOTHING_TO_MARK:
                self._has_marker(ending, partition)
                self._finish_if_done(ending)
            else:
                self._refused(ending, partition, code)
                again.setdefault(ending, set()).add(partition)
        for ending, partitions in again.items():
            if ending in self._endings:
                self._pause(ending, partitions)
        self._schedule()

    # -- one transaction ----------------------------------------------------------------------

    def _is_current(self, ending: Ending) -> bool:
        """Whether to go on with it; if its shard serves no longer, it is forgotten."""
        if ending not in self._endings:
            return False
        if ending.is_current():
            return True
        del self._endings[ending]
        self._paused.pop(ending, None)
        return False

    def _has_marker(self, ending: Ending, partition: TopicPartition) -> None:
        if partition in ending.waiting:
            ending.waiting.discard(partition)
            self.written += 1
            ending.written(partition)

    def _finish_if_done(self, ending: Ending) -> None:
        if ending.waiting or ending not in self._endings:
            return
        if ending.complete():
            del self._endings[ending]
        else:
            self._pause(ending, set())

    def _refused(self, ending: Ending, partition: TopicPartition, code: int) -> None:
        self.failures += 1
        if code not in _EXPECTED:
            self._log_limit.write(
                self._logger.warning,
                "txn_marker_refused",
                kind=str(code),
                instance=ending.key.instance,
                transactional_id=ending.key.transactional_id,
                topic=partition.topic,
                partition=partition.partition,
                error=code,
            )

    def _pause(self, ending: Ending, partitions: set[TopicPartition]) -> None:
        waiting = self._paused.get(ending)
        if waiting is not None:
            waiting |= partitions
            return
        self._paused[ending] = partitions
        self._call_later(ending.pause_s, partial(self._resume, ending))
        ending.pause_s = min(2 * ending.pause_s, PAUSE_S_MAX)

    def _resume(self, ending: Ending) -> None:
        partitions = self._paused.pop(ending, None)
        if partitions is not None:
            self._later_this_turn(ending, partitions)
