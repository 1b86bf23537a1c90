"""Which producers may begin a transaction in one partition: the coordinator was asked (KIP-890).

Follows Kafka's `VerificationStateEntry` and `VerificationGuard`. A leader notes that it asks, then what
it was told. A marker drops both: an answer that was under way then must not let a late batch begin a
transaction that nobody would end. The producer's first batch drops them, too, since the open transaction
takes their place, and so do truncation and the end of leadership.

A marker of transaction.version 2 has a larger epoch than the records of its transaction, so it says
nothing of a transaction in its own epoch: the next one, whose first batch may come before this marker
(Kafka forgets that one, and the producer has to abort it).
"""

from typing import Final

from highwater.kafka.error_codes import ErrorCode

PRODUCERS_MAX: Final = 4096
"""That were asked for and have neither begun nor ended a transaction since, of one partition; some
150 bytes each. Then the oldest has to be asked for again, and its producer to send again."""

_ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        # The coordinator's image is older than this node's.
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Verification:
    """Of one producer; `Verifications` has it until it is dropped."""

    __slots__ = ("crowded_out", "epoch", "granted", "lowest_sequence", "own_epoch")

    def __init__(self, epoch: int, lowest_sequence: int, *, own_epoch: bool) -> None:
        self.epoch = epoch
        self.own_epoch = own_epoch
        """Whether each of the producer's transactions has an epoch of its own (transaction.version 2),
        in which its sequences begin at 0."""
        self.lowest_sequence = lowest_sequence
        """The first of all batches that were seen: a later one may not begin the transaction, even if
        nothing else is known of the producer."""
        self.granted = False
        self.crowded_out = False
        """It made room for others: nothing has been said against the producer."""

    @property
    def late_code(self) -> ErrorCode:
        """Why a batch is refused whose answer comes too late; with NOT_ENOUGH_REPLICAS it is sent again."""
        crowded_out = self.crowded_out
        return ErrorCode.NOT_ENOUGH_REPLICAS if crowded_out else ErrorCode.INVALID_TXN_STATE


class Verifications:
    """Of one log; see the module. Lives as long as `ProducerStates`, which has it."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def asked(
        self, producer_id: int, epoch: int, base_sequence: int, *, own_epoch: bool = False
    ) -> Verification:
        """The coordinator is asked because of a batch; `grant` what this returns."""
        known = self._by_producer.pop(producer_id, None)
        if known is not None and known.epoch > epoch:
            self._by_producer[producer_id] = known
            return Verification(epoch, base_sequence, own_epoch=own_epoch)
        if known is None or known.epoch < epoch:
            known = Verification(epoch, base_sequence, own_epoch=own_epoch)
        elif base_sequence < known.lowest_sequence:
            known.lowest_sequence = base_sequence
        self._by_producer[producer_id] = known
        if len(self._by_producer) > PRODUCERS_MAX:
            oldest = self._by_producer.pop(next(iter(self._by_producer)))
            oldest.crowded_out = True
        return known

    def grant(self, producer_id: int, verification: Verification) -> bool:
        """The coordinator has agreed; False if that comes too late (`late_code`)."""
        if self._by_producer.get(producer_id) is not verification:
            return False
        verification.granted = True
        return True

    def granted(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer may begin a transaction in this epoch."""
        known = self._by_producer.get(producer_id)
        return known is not None and known.granted and known.epoch == epoch

    def refuse(
        self, producer_id: int, epoch: int, base_sequence: int, *, unknown: bool = False
    ) -> int:
        """Kafka's error code for the first batch of a transaction, 0 if it may be appended.

        `unknown`: the log has nothing of the producer. If its sequences begin at 0, a batch with a
        later one shows that records before it are lost.
        """
        known = self._by_producer.get(producer_id)
        if known is None or not known.granted or known.epoch != epoch:
            return ErrorCode.INVALID_TXN_STATE
        if base_sequence > (0 if unknown and known.own_epoch else known.lowest_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return 0

    def begun(self, producer_id: int) -> None:
        """The producer's transaction is open."""
        if self._by_producer:
            self._by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, marker_epoch: int, *, strict: bool) -> None:
        """A marker is about to be written; `strict` if its epoch is larger than its records'."""
        known = self._by_producer.get(producer_id)
        if known is not None and known.epoch < marker_epoch + (not strict):
            del self._by_producer[producer_id]

    def clear(self) -> None:
        """Nobody may begin a transaction any more, whatever answers are under way."""
        self._by_producer.clear()


def produce_error(code: int, *, adds_partition: bool) -> int:
    """The coordinator's error code as producers know it (Kafka's `AddPartitionsToTxnManager` and
    `ReplicaManager.handleProduceAppend`).

    NOT_ENOUGH_REPLICAS lets every client send the batch again. Those that know CONCURRENT_TRANSACTIONS
    in Produce are the ones whose partitions the leader adds.
    """
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in _ASK_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds_partition):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
