"""The coordinator of one partition of a topic of transactions, as pure state.

Lifecycle: `replay` every committed record, `activate` once, then call the handlers. After each
handler and each `expire` the owner takes `take_records` (to append, in order) and `take_prepared`
(to send markers once those records are committed). If an append fails, the owner discards the shard
and loads it anew.
"""

from collections.abc import Callable, Iterator

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.core.forgetting import Forgetting
from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment, Reply
from highwater.partition.transactions.core import adding, ending, initializing, transitions
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import (
    NO_EPOCH,
    DurableState,
    TopicPartition,
    TransactionImage,
    TransactionKey,
    TransactionRecord,
)
from highwater.partition.transactions.core.state import AT_REST, DEAD, ONGOING, PREPARED
from highwater.partition.transactions.core.state import check_transition as check_state
from highwater.partition.transactions.core.values import (
    Decision,
    EndRequest,
    Filters,
    NewProducerId,
    Prepared,
    ProducerIdAndEpoch,
    refused,
)

_SLICE_PAUSE_MS = 10
"""Pause between two slices of a check, so that calls are handled meanwhile."""


class TransactionShard:
    """The transactional ids of one partition; every method returns at once."""

    def __init__(
        self,
        config: TransactionConfig,
        new_id: NewProducerId,
        transaction_version: Callable[[], int],
    ) -> None:
        """`transaction_version` is the cluster's, for what no client asks for."""
        self._config = config
        self._new_id = new_id
        self._version = transaction_version
        self._state = DurableState()
        self._records: list[TransactionRecord] = []
        self._prepared: list[TransactionKey] = []
        self._unmarked: dict[TransactionKey, set[TopicPartition]] = {}
        """By prepared transaction, the partitions without a marker."""
        self._open: dict[TransactionKey, None] = {}
        """The ids in ONGOING, in the order in which their transactions began."""
        self._timers = TimerHeap()
        self._abort_check = _SlicedCheck(
            self._timers,
            every_ms=config.abort_check_ms,
            per_slice=config.ids_per_slice,
            keys=lambda: self._open,
            look=self._abort_if_late,
        )
        self._expiry_check = _SlicedCheck(
            self._timers,
            every_ms=config.id_expiration_check_ms,
            per_slice=config.ids_per_slice,
            keys=lambda: self._state.images,
            look=self._expire_if_old,
        )
        self.forgetting: Forgetting[TransactionKey] = Forgetting(
            keys=lambda: self._state.images,
            forget=self._forget,
            written=lambda: len(self._records),
        )
        """The ids of purged instances."""
        self._active = False

    # -- loading ------------------------------------------------------------------------------

    def replay(self, record: TransactionRecord) -> None:
        """Apply a committed record while loading."""
        assert not self._active
        self._state.replay(record)

    def activate(self, now: Moment) -> None:
        """Begin to serve: what was prepared is to be completed by this coordinator."""
        assert not self._active
        self._active = True
        for key, image in self._state.images.items():
            self._note(key, image)
        self._abort_check.start(now)
        self._expiry_check.start(now)

    def _has_place(self, instance: InstanceId) -> bool:
        """Whether the instance may have another id here. Instances other than the default one share their
        shards: each may have as many ids as places are left, so that others find some.
        """
        left = self._config.ids_max - len(self._state.images)
        shares = instance != DEFAULT_INSTANCE
        return left > (self._state.counts[instance] if shares else 0)

    # -- handlers -----------------------------------------------------------------------------

    def initialize(
        self,
        key: TransactionKey,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        now: Moment,
    ) -> Decision:
        """InitProducerId; `expected` is the producer that wants to go on (KIP-360), if it says."""
        if not key.transactional_id:
            return refused(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.timeout_ms_max:
            return refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        image = self._state.images.get(key)
        if image is None and not self._has_place(key.instance):
            return refused(ErrorCode.POLICY_VIOLATION)
        return self._carry_out(
            key,
            initializing.initialize(
                image,
                timeout_ms=timeout_ms,
                expected=expected,
                new_id=self._new_id,
                version=self._version(),
                wall_ms=now.wall_ms,
            ),
        )

    def add(
        self,
        key: TransactionKey,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        version: int,
        now: Moment,
    ) -> ErrorCode:
        """Partitions join the transaction; `version` is the client's transaction.version."""
        if not key.transactional_id:
            return ErrorCode.INVALID_REQUEST
        decision = adding.add(
            self._state.images.get(key),
            producer,
            partitions,
            version=version,
            bytes_max=self._config.partitions_bytes_max,
            wall_ms=now.wall_ms,
        )
        return self._carry_out(key, decision).error

    def verify(
        self,
        key: TransactionKey,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is in the producer's open transaction."""
        if not key.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        return adding.verify(self._state.images.get(key), producer, partitions)

    def end(self, key: TransactionKey, request: EndRequest, now: Moment) -> Decision:
        """EndTxn."""
        if not key.transactional_id:
            return refused(ErrorCode.INVALID_REQUEST)
        image = self._state.images.get(key)
        decision = ending.end(image, request, self._new_id, now.wall_ms)
        return self._carry_out(key, decision)

    def describe(self, key: TransactionKey) -> Prepared | ErrorCode:
        """DescribeTransactions: the image, and its partitions without a marker."""
        if not key.transactional_id:
            return ErrorCode.INVALID_REQUEST
        image = self._state.images.get(key)
        if image is None:
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        left = self._unmarked.get(key, image.partitions)
        return Prepared(key, image, frozenset(left))

    def matching(
        self, instance: InstanceId, filters: Filters, wall_ms: int
    ) -> Iterator[tuple[TransactionKey, TransactionImage]]:
        """ListTransactions: the ids of the instance that pass all filters."""
        for key, image in self._state.images.items():
            if key.instance != instance:
                continue
            if filters.producer_ids and image.producer_id not in filters.producer_ids:
                continue
            if filters.has_state_filter and image.state not in filters.states:
                continue
            # As in Kafka, an id that never had a transaction passes with its start of -1.
            if filters.duration_ms >= 0 and wall_ms - image.start_ms <= filters.duration_ms:
                continue
            yield key, image

    # -- markers ------------------------------------------------------------------------------

    def marker_written(self, key: TransactionKey, partition: TopicPartition) -> None:
        """A partition has the marker of the prepared transaction, or is no longer there."""
        left = self._unmarked.get(key)
        if left is not None:
            left.discard(partition)  # In place: a transaction may have ten thousand.

    def complete(self, key: TransactionKey, now: Moment) -> None:
        """All partitions of the prepared transaction have its marker."""
        image = self._state.images.get(key)
        assert image is not None, "a prepared transaction does not expire"
        assert not self._unmarked[key], "a partition has no marker"
        self._apply(key, transitions.completed(image, now.wall_ms))

    # -- time ---------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When the owner must call `expire` next, on the monotonic clock."""
        return self._timers.next_deadline_ms()

    def expire(self, now: Moment) -> None:
        """Run every timer that is due."""
        self._timers.expire(now)

    def _abort_if_late(self, key: TransactionKey, now: Moment) -> None:
        image = self._state.images.get(key)
        if image is None or image.state is not ONGOING:
            return
        if image.start_ms + image.timeout_ms < now.wall_ms:
            # Without another producer id, the next check tries again.
            decision = ending.fence(image, self._version(), self._new_id, now.wall_ms)
            self._carry_out(key, decision)

    def _expire_if_old(self, key: TransactionKey, now: Moment) -> None:
        image = self._state.images.get(key)
        if image is None or image.state not in AT_REST:
            return
        if image.update_ms <= now.wall_ms - self._config.id_expiration_ms:
            check_state(image.state, DEAD)
            self._apply(key, None)

    def _forget(self, key: TransactionKey, now: Moment) -> bool:
        """Drop the id of a purged instance; False until its transaction has ended.

        That is aborted. Its topics are gone and need no marker, but the topic of groups is there, and
        would have an open transaction for ever.
        """
        image = self._state.images.get(key)
        if image is None:
            return True
        if image.state is ONGOING:
            self._carry_out(key, ending.fence(image, self._version(), self._new_id, now.wall_ms))
            return False
        if image.state in PREPARED:
            return False
        check_state(image.state, DEAD)
        self._apply(key, None)
        return True

    # -- for the owner ------------------------------------------------------------------------

    def take_records(self) -> list[TransactionRecord]:
        """Take the records since the last call, already replayed, to append in this order."""
        records, self._records = self._records, []
        return records

    def take_prepared(self) -> list[Prepared]:
        """Take the transactions that were prepared since the last call; markers go to their
        partitions once everything that was taken with them is committed.
        """
        if not self._prepared:
            return []
        taken, self._prepared = self._prepared, []
        images = self._state.images
        return [Prepared(each, images[each], frozenset(self._unmarked[each])) for each in taken]

    def take_replies(self) -> list[Reply[None]]:
        """No call waits in a shard of transactions: each is answered at once, or after a commit."""
        return []

    def is_parked(self, token: object) -> bool:
        """See `take_replies`."""
        return token in self.parked_tokens()

    def parked_tokens(self) -> list[object]:
        """See `take_replies`."""
        return []

    def forget_call(self, token: object, now: Moment) -> None:
        """See `take_replies`."""

    def capture(self) -> DurableState:
        """Copy the durable state, so that later records do not change the copy."""
        return self._state.capture()

    @property
    def images(self) -> dict[TransactionKey, TransactionImage]:
        """The transactional ids; read only."""
        return self._state.images

    def count(self, instance: InstanceId) -> int:
        """How many transactional ids the instance has here."""
        return self._state.counts[instance]

    def unmarked(self, key: TransactionKey) -> frozenset[TopicPartition]:
        """The partitions of a prepared transaction that have no marker yet."""
        return frozenset(self._unmarked.get(key, ()))

    # -- applying -----------------------------------------------------------------------------

    def _carry_out(self, key: TransactionKey, decision: Decision) -> Decision:
        if decision.image is not None:
            self._apply(key, decision.image)
        return decision

    def _apply(self, key: TransactionKey, image: TransactionImage | None) -> None:
        """Replay a record now and queue it for the append."""
        assert image is None or image.producer_epoch > NO_EPOCH
        record = TransactionRecord(key, image)
        self._state.replay(record)
        self._records.append(record)
        self._note(key, image)

    def _note(self, key: TransactionKey, image: TransactionImage | None) -> None:
        """Keep up what follows from the image."""
        if image is not None and image.state is ONGOING:
            self._open[key] = None
        else:
            self._open.pop(key, None)
        if image is not None and image.state in PREPARED:
            self._unmarked[key] = set(image.partitions)
            self._prepared.append(key)
        else:
            self._unmarked.pop(key, None)


class _SlicedCheck:
    """Looks at many transactional ids from time to time, some at once, so that calls are handled
    meanwhile.
    """

    def __init__(
        self,
        timers: TimerHeap,
        *,
        every_ms: int,
        per_slice: int,
        keys: Callable[[], dict[TransactionKey, TransactionImage] | dict[TransactionKey, None]],
        look: Callable[[TransactionKey, Moment], None],
    ) -> None:
        self._timers = timers
        self._every_ms = every_ms
        self._per_slice = per_slice
        self._keys = keys
        self._look = look
        self._round: Iterator[TransactionKey] | None = None
        self._timer = Timer(self._slice)

    def start(self, now: Moment) -> None:
        """The first round begins after the pause between rounds."""
        self._timers.set(self._timer, now.now_ms + self._every_ms)

    def _slice(self, now: Moment) -> None:
        if self._round is None:
            self._round = iter(list(self._keys()))
        for _ in range(self._per_slice):
            key = next(self._round, None)
            if key is None:
                self._round = None
                self._timers.set(self._timer, now.now_ms + self._every_ms)
                return
            self._look(key, now)
        self._timers.set(self._timer, now.now_ms + _SLICE_PAUSE_MS)
