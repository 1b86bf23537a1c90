"""Produce across the hop: batches gathered into groups, a group for one partition.

Hot path (decision 17): no object per request beyond the client's own sink, lists
instead of records, one group per partition and loop turn. A gateway calls `AppendGatherer.append`
for every batch; the partition node in process, or a gRPC stream, completes each group exactly once
(`AppendGroup.complete`), which informs the group's owner or every sink.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from highwater.model.ids import InstanceId, LeaderEpoch, TopicId

GROUP_BATCHES_MAX: Final = 256
"""Batches in one group; the measured cap of requests in a coalesced message."""

GROUP_BYTES_MAX: Final = 1 << 20
"""A group closes after the batch that reaches it, so it is larger by at most one batch."""

Batch: TypeAlias = bytearray | memoryview
"""A record batch. A node may write into it if its group is `writable`."""
NO_BATCH: Final = memoryview(b"")
"""In place of a batch whose bytes are not needed any more."""

OUTCOME_NOT_APPENDED: Final = 1
OUTCOME_APPENDED: Final = 2
OUTCOME_UNKNOWN: Final = 3


@dataclass(frozen=True, slots=True)
class TransactionalWrite:
    """The transaction that a produce request belongs to, as its leaders must know it (KIP-890)."""

    transactional_id: str
    adds_partition: bool
    """True from Produce 12 on: the leader adds the partition to the transaction. False: it asks the
    coordinator whether the client has added it."""


class AppendSink(Protocol):
    """Waits for a batch's result; usually one Produce request of one connection."""

    def append_done(
        self, index: int, base_offset: int, group: "AppendGroup", failure: "Failure | None"
    ) -> None:
        """Called exactly once per batch; `failure` is None if the batch was appended."""
        ...

    def append_broken(self, error: Exception) -> None:
        """`append_done` raised: a bug of the sink, which ends only its own connection."""
        ...


class Failure:
    """Why a batch was refused: Kafka's code, the outcome for the batch, and a message.

    `record_errors` names single invalid records: (position in the batch, message).
    """

    __slots__ = ("error_code", "leader", "leader_epoch", "message", "outcome", "record_errors")

    def __init__(
        self,
        error_code: int,
        message: str = "",
        *,
        outcome: int = OUTCOME_NOT_APPENDED,
        leader: int = -1,
        leader_epoch: int = -1,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.error_code = error_code
        self.message = message
        self.outcome = outcome
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.record_errors = record_errors

    def __repr__(self) -> str:
        return f"Failure({self.error_code}, {self.message!r}, outcome={self.outcome})"


class AppendRoute:
    """The route of one partition's batches; `routing` replaces it when the leader changes."""

    __slots__ = ("instance", "leader_epoch", "on_open", "open_group", "partition", "topic_id")

    def __init__(
        self, *, topic_id: TopicId, partition: int, leader_epoch: LeaderEpoch, instance: InstanceId
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.instance = instance
        self.open_group: AppendGroup | None = None
        """The group that still takes batches, if any; only the gatherer touches it."""
        self.on_open: Callable[[AppendGroup], None] | None = None
        """Called with each new group, while a hold tracks the groups in flight."""


class AppendOwner(Protocol):
    """Owns a group, from its construction to its end."""

    def take_result(
        self,
        group: "AppendGroup",
        base_offsets: list[int],
        failures: "Mapping[int, Failure] | None",
    ) -> bool:
        """Gets the arguments of `AppendGroup.complete`, before any sink.

        True if the owner informs the sinks, now or later; False if `complete` must do it.
        """
        ...


class AppendGroup:
    """Batches for one partition, in the order that they must have in the log.

    Each buffer in `batches` is exactly one record batch. `writable` means that they may be
    patched in place. After `complete`, the results are in the fields below.

    If the group has no owner, it informs the sinks itself.
    """

    __slots__ = (
        "acks",
        "attempted",
        "batches",
        "completed",
        "deadline_ms",
        "doubtful",
        "indexes",
        "instance",
        "known_timestamps",
        "later_deadlines",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "message_id",
        "nbytes",
        "owner",
        "partition",
        "place",
        "sinks",
        "throttle_ms",
        "topic_id",
        "transaction",
        "whole",
        "writable",
    )

    message_id: int
    place: int
    """Only for a group that came over a stream: its message, and its place in that."""

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        leader_epoch: int,
        acks: int,
        instance: InstanceId,
        owner: AppendOwner | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.acks = acks
        self.instance = instance
        self.batches: list[Batch] = []
        self.sinks: list[AppendSink] = []
        self.indexes: list[int] = []
        self.nbytes = 0
        self.writable = True
        self.whole: bytearray | memoryview | None = None
        """One buffer with all batches back to back, if there is one: allows a single write."""
        self.deadline_ms = 0
        """On the sender's monotonic clock; the earliest of the batches' deadlines."""
        self.later_deadlines: dict[int, int] | None = None
        """By place in `batches`, the deadlines that differ from the earliest; rare."""
        self.doubtful = False
        """True if it was sent with an unknown outcome, and will be sent again."""
        self.attempted = False
        """True once it was sent: from then on, it may be in a log."""
        self.log_start_offset = -1
        self.log_append_time_ms = -1
        self.known_timestamps: Mapping[int, int] | None = None
        """By place in `batches`, for those that were in the log before: their largest timestamp, which
        is told in place of `log_append_time_ms`. None if there are none."""
        self.throttle_ms = 0
        self.transaction: TransactionalWrite | None = None
        """The transaction of all batches, None if they are of none."""
        self.completed = False
        self.owner: Final = owner

    def note_deadline(self, deadline_ms: int) -> None:
        """Notes the next batch's deadline if it differs; call before the batch is added."""
        later = self.later_deadlines
        if later is None:
            later = self.later_deadlines = {}
        if deadline_ms > self.deadline_ms:
            later[len(self.batches)] = deadline_ms
            return
        for place in range(len(self.batches)):
            later.setdefault(place, self.deadline_ms)
        self.deadline_ms = deadline_ms

    @property
    def last_deadline_ms(self) -> int:
        """The latest of the batches' deadlines."""
        later = self.later_deadlines
        return max(self.deadline_ms, *later.values()) if later else self.deadline_ms

    def release_bytes(self) -> None:
        """Frees bytes that are in the log, if they cannot be needed here to send them again.

        A group that came over a stream may wait long for followers; its sender keeps the bytes.
        """
        if not self.sinks:
            self.batches = [NO_BATCH] * len(self.batches)
            self.whole = None

    def leave_buffer(self, nbytes_max: int) -> None:
        """Copies the batches if they are views of a buffer of more than `nbytes_max` bytes.

        Only of a group that came over a stream: a gateway's batches belong to its own requests.
        """
        if self.sinks or not self.batches:
            return
        first = self.batches[0]
        buffer = first.obj if isinstance(first, memoryview) else first
        if not isinstance(buffer, bytes | bytearray) or len(buffer) <= nbytes_max:
            return
        copied = memoryview(bytearray().join(self.batches))
        at = 0
        for place, batch in enumerate(self.batches):
            self.batches[place] = copied[at : at + len(batch)]
            at += len(batch)
        self.whole, self.writable = copied, True

    def complete(
        self, base_offsets: list[int], failures: Mapping[int, Failure] | None = None
    ) -> None:
        """Gives the outcome: a base offset per batch, -1 for those in `failures`.

        If the owner does not take it, each sink gets its result, in the order of the batches. If a
        sink raises, its `append_broken` is called; other sinks, and the log or stream that
        completed the group, are not affected.
        """
        self.completed = True
        owner = self.owner
        if owner is not None and owner.take_result(self, base_offsets, failures):
            return
        if failures is not None or self.known_timestamps is not None:
            tell_sinks(self, base_offsets, failures or {})
            return
        for sink, index, offset in zip(self.sinks, self.indexes, base_offsets, strict=True):
            try:
                sink.append_done(index, offset, self, None)
            except Exception as error:  # noqa: BLE001 - one client's bug, not the partition's.
                sink.append_broken(error)

    def fail(self, failure: Failure) -> None:
        """Completes every batch with the same failure."""
        n = len(self.batches)
        self.complete([-1] * n, dict.fromkeys(range(n), failure))


def tell_sinks(
    group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure]
) -> None:
    """Gives each batch's outcome to its sink, without asking the group's owner.

    To a sink whose batch was in the log before, the group has that batch's timestamp as its
    `log_append_time_ms` (Kafka: `UnifiedLog.append`).
    """
    stamped = group.log_append_time_ms
    known = group.known_timestamps or {}
    for i, (sink, index) in enumerate(zip(group.sinks, group.indexes, strict=True)):
        group.log_append_time_ms = known.get(i, stamped)
        tell(sink, index, base_offsets[i], group, failures.get(i))
    group.log_append_time_ms = stamped


def tell(
    sink: AppendSink, index: int, base_offset: int, group: AppendGroup, failure: Failure | None
) -> None:
    """Gives one batch's outcome to its sink, as `AppendGroup.complete` does."""
    try:
        sink.append_done(index, base_offset, group, failure)
    except Exception as error:  # noqa: BLE001 - as in `complete`.
        sink.append_broken(error)


class AppendGatherer:
    """Collects batches into groups and hands them over once per loop turn, or on request.

    `schedule` runs a function at the end of the present loop turn; `send` takes the groups.
    After `hold()` (a stream has enough messages outstanding), groups keep growing until
    `release()` sends them.
    """

    __slots__ = (
        "_groups",
        "_held",
        "_open_routes",
        "_owner",
        "_schedule",
        "_scheduled",
        "_send",
        "queued_bytes",
    )

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        send: Callable[[list[AppendGroup]], None],
        owner: AppendOwner | None = None,
    ) -> None:
        """`owner` owns all groups made here."""
        self._schedule = schedule
        self._send = send
        self._owner = owner
        self._groups: list[AppendGroup] = []
        self._open_routes: list[AppendRoute] = []
        self._scheduled = False
        self._held = False
        self.queued_bytes = 0

    def append(
        self,
        route: AppendRoute,
        acks: int,
        batch: Batch,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
        transaction: TransactionalWrite | None = None,
    ) -> None:
        """Queues one batch behind all earlier ones of its partition."""
        group = route.open_group
        if (
            group is None
            or group.acks != acks
            or (group.transaction is not transaction and group.transaction != transaction)
            or group.nbytes >= GROUP_BYTES_MAX
            or len(group.batches) >= GROUP_BATCHES_MAX
        ):
            group = self._open(route, acks)
            group.deadline_ms = deadline_ms
            group.transaction = transaction
        elif deadline_ms != group.deadline_ms:
            group.note_deadline(deadline_ms)
        group.batches.append(batch)
        group.sinks.append(sink)
        group.indexes.append(index)
        group.nbytes += nbytes
        self.queued_bytes += nbytes

    def _open(self, route: AppendRoute, acks: int) -> AppendGroup:
        group = AppendGroup(
            route.topic_id,
            route.partition,
            route.leader_epoch,
            acks,
            route.instance,
            self._owner,
        )
        if route.on_open is not None:
            route.on_open(group)
        route.open_group = group
        self._groups.append(group)
        self._open_routes.append(route)
        if not self._scheduled and not self._held:
            self._scheduled = True
            self._schedule(self.flush)
        return group

    def append_group(self, route: AppendRoute, group: AppendGroup) -> None:
        """Queues a whole group again; `doubtful` and `attempted` stay as they are."""
        group.completed = False
        # Later batches must not join a group that is sent before this one.
        route.open_group = None
        self._groups.append(group)
        self.queued_bytes += group.nbytes
        if not self._scheduled and not self._held:
            self._scheduled = True
            self._schedule(self.flush)

    def hold(self) -> None:
        """Keeps groups here until `release`."""
        self._held = True

    def release(self) -> None:
        """Ends `hold` and sends the gathered groups."""
        self._held = False
        if self._groups:
            self.flush()

    def flush(self) -> None:
        """Sends all groups now, unless held."""
        self._scheduled = False
        if self._held or not self._groups:
            return
        self._send(self.take())

    def prune(self, take_out: Callable[[AppendGroup], int]) -> None:
        """Lets `take_out` remove batches and return their bytes; drops empty groups."""
        kept: list[AppendGroup] = []
        for group in self._groups:
            self.queued_bytes -= take_out(group)
            if group.batches:
                kept.append(group)
        self._groups = kept
        for route in self._open_routes:
            opened = route.open_group
            if opened is not None and not opened.batches:
                route.open_group = None

    @property
    def groups(self) -> Iterator[AppendGroup]:
        """The gathered groups in order."""
        return iter(self._groups)

    def recall(self, wanted: Callable[[AppendGroup], bool]) -> list[AppendGroup]:
        """Takes out the wanted groups, in order; they are not sent."""
        recalled = [group for group in self._groups if wanted(group)]
        if recalled:
            gone = set(recalled)
            self._groups = [group for group in self._groups if group not in gone]
            self.queued_bytes -= sum(group.nbytes for group in recalled)
            for route in self._open_routes:
                if route.open_group in gone:
                    route.open_group = None
        return recalled

    def take(self) -> list[AppendGroup]:
        """Takes all gathered groups, in order; later batches open new ones."""
        groups, self._groups = self._groups, []
        for route in self._open_routes:
            route.open_group = None
        self._open_routes.clear()
        self.queued_bytes = 0
        return groups
