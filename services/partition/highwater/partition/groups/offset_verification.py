"""Whether a transaction covers the offsets that a group commits in it (KIP-890).

The partition that has the group's offsets is verified as a leader verifies those of records: before the first
offsets of a transaction the transaction coordinator is asked, or adds the partition (TxnOffsetCommit v5).
A marker that was decided meanwhile takes the answer back.

Source: Kafka's `CoordinatorPartitionWriter.maybeStartTransactionVerification` and
`GroupCoordinatorService.handleOperationException`.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.txn_offset_commit import TxnOffsetCommitRequest
from highwater.model.ids import GROUP_METADATA_TOPIC
from highwater.model.transactions import PartitionWriter, TransactionMarker, TransactionVerifier
from highwater.partition.coordinator.log_port import CoordinatorLog
from highwater.partition.core.verifications import Verification, produce_error

ADDS_PARTITION_FROM: Final = 5
"""The version of TxnOffsetCommit from which on the group's coordinator adds the partition."""
ABORTABLE_FROM: Final = 4
"""The version of TxnOffsetCommit from which on clients know TRANSACTION_ABORTABLE."""


class OffsetVerification:
    """Of one group coordinator; used on its loop."""

    def __init__(self, log: CoordinatorLog, verifier: TransactionVerifier) -> None:
        self._log = log
        self._verifier = verifier
        self._ending: Counter[tuple[int, int]] = Counter()
        """By partition and producer, the markers that are decided and may not be in the log yet."""

    def asks(
        self, call: CoordinatorCall, body: TxnOffsetCommitRequest, done: Callable[[int], None]
    ) -> bool:
        """False if the producer's transaction is open in the partition; otherwise the coordinator is
        asked, and `done` is called once with Kafka's error code as the client knows it, or 0.
        """
        number, producer_id = call.partition, body.producer_id
        is_open = self._log.in_transaction(number, producer_id, body.producer_epoch)
        if is_open and (number, producer_id) not in self._ending:
            return False
        asked = self._log.ask_verification(number, producer_id, body.producer_epoch)
        writer = PartitionWriter(
            transactional_id=body.transactional_id,
            producer_id=producer_id,
            producer_epoch=body.producer_epoch,
            instance=call.instance,
            topic=GROUP_METADATA_TOPIC,
            partition=number,
            adds_partition=call.api_version >= ADDS_PARTITION_FROM,
        )
        self._verifier.verify(writer, partial(self._answered, call, producer_id, asked, done))
        return True

    def _answered(
        self,
        call: CoordinatorCall,
        producer_id: int,
        asked: Verification,
        done: Callable[[int], None],
        code: int,
    ) -> None:
        if not code and not self._log.grant_verification(call.partition, producer_id, asked):
            code = asked.late_code
        done(_commit_error(code, call.api_version))

    def marker_decided(self, partition: int, marker: TransactionMarker) -> None:
        """A marker goes to the log; later offsets are behind it."""
        self._ending[partition, marker.producer_id] += 1
        self._log.end_verification(partition, marker)

    def marker_done(self, partition: int, marker: TransactionMarker) -> None:
        """The marker is committed, or will not be."""
        key = partition, marker.producer_id
        self._ending[key] -= 1
        if not self._ending[key]:
            del self._ending[key]


def _commit_error(code: int, version: int) -> int:
    """As clients of TxnOffsetCommit know it. COORDINATOR_LOAD_IN_PROGRESS lets them send the offsets
    again, to the same coordinator.
    """
    known = produce_error(code, adds_partition=False)
    if known == ErrorCode.NOT_ENOUGH_REPLICAS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if known == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return known
