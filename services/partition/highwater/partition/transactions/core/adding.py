"""AddPartitionsToTxn and AddOffsetsToTxn: partitions join a transaction, or a leader asks whether
they have (KIP-890). Kafka: `handleAddPartitionsToTransaction`, `handleVerifyPartitionsInTransaction`.
"""

from collections.abc import Iterable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core import transitions
from highwater.partition.transactions.core.image import TopicPartition, TransactionImage
from highwater.partition.transactions.core.state import ONGOING, PREPARED
from highwater.partition.transactions.core.values import Decision, ProducerIdAndEpoch, refused


def add(
    image: TransactionImage | None,
    producer: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    *,
    version: int,
    bytes_max: int,
    wall_ms: int,
) -> Decision:
    """`version`: the transaction.version that the request stands for, 2 or 0."""
    if image is None:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if image.state in PREPARED:
        # First of all: the producer may already have the id or the epoch that follows the end.
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if image.producer_id != producer.producer_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if image.producer_epoch != producer.epoch:
        return refused(ErrorCode.PRODUCER_FENCED)
    if image.state is ONGOING and partitions <= image.partitions:
        return Decision()
    following = transitions.added(image, partitions, version, wall_ms)
    if _record_bytes(following.partitions) > bytes_max:
        return refused(ErrorCode.INVALID_REQUEST)
    return Decision(image=following)


def verify(
    image: TransactionImage | None,
    producer: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the producer's open transaction; writes nothing."""
    error = _mismatch(image, producer)
    if error is not ErrorCode.NONE:
        return dict.fromkeys(partitions, error)
    known = frozenset[TopicPartition]() if image is None else image.partitions
    return {
        each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _mismatch(image: TransactionImage | None, producer: ProducerIdAndEpoch) -> ErrorCode:
    if image is None or image.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if image.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    if image.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def _record_bytes(partitions: frozenset[TopicPartition]) -> int:
    """The size of the partitions in the record, never too low."""
    topics = {each.topic for each in partitions}
    # 4 bytes a partition; 3 for the length of a name, 5 for the count, 1 for tagged fields.
    return 4 * len(partitions) + sum(4 * len(topic) + 9 for topic in topics)
