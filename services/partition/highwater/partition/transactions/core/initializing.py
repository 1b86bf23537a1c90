"""InitProducerId: a producer takes a transactional id and keeps all earlier ones out (KIP-98), or
goes on after an error (KIP-360). Kafka: `TransactionCoordinator.prepareInitProducerIdTransit`.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core import transitions
from highwater.partition.transactions.core.ending import fence
from highwater.partition.transactions.core.image import NO_EPOCH, TransactionImage, is_exhausted
from highwater.partition.transactions.core.state import ONGOING, PREPARED
from highwater.partition.transactions.core.values import (
    Decision,
    NewProducerId,
    ProducerIdAndEpoch,
    refused,
)


def initialize(
    image: TransactionImage | None,
    *,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_id: NewProducerId,
    version: int,
    wall_ms: int,
) -> Decision:
    """`image` is None for an unknown id, `expected` the producer that wants to go on (KIP-360).

    `version` is the cluster's transaction.version. An open transaction is aborted, and the client
    is told to ask again: CONCURRENT_TRANSACTIONS.
    """
    if image is None:
        producer_id = new_id()
        if producer_id is None:
            return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        image = transitions.created(producer_id, timeout_ms, wall_ms)
    if image.state in PREPARED:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_go_on(image, expected):
        return refused(ErrorCode.PRODUCER_FENCED)
    if image.state is ONGOING:
        ended = fence(image, version, new_id, wall_ms)
        error = ended.error or ErrorCode.CONCURRENT_TRANSACTIONS
        return Decision(error=error, image=ended.image)
    if image.epoch_exhausted and (expected is None or expected.epoch == image.producer_epoch):
        producer_id = new_id()
        if producer_id is None:
            return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        last_epoch = NO_EPOCH if expected is None else image.producer_epoch
        return _answered(
            transitions.rotated(
                image, producer_id, last_epoch=last_epoch, timeout_ms=timeout_ms, wall_ms=wall_ms
            )
        )
    epochs = _next_epochs(image, expected)
    if epochs is None:
        return refused(ErrorCode.PRODUCER_FENCED)
    epoch, last_epoch = epochs
    return _answered(
        transitions.bumped(
            image, epoch=epoch, last_epoch=last_epoch, timeout_ms=timeout_ms, wall_ms=wall_ms
        )
    )


def _may_go_on(image: TransactionImage, expected: ProducerIdAndEpoch) -> bool:
    """Whether nobody else has taken the transactional id, as far as the producer id tells."""
    return (
        # The id has expired, and the producer begins anew.
        image.producer_epoch == NO_EPOCH
        or expected.producer_id == image.producer_id
        # It may have missed the answer that had its next producer id.
        or (expected.producer_id == image.previous_producer_id and is_exhausted(expected.epoch))
    )


def _next_epochs(
    image: TransactionImage, expected: ProducerIdAndEpoch | None
) -> tuple[int, int] | None:
    """The epoch and the last one; None if the producer has been fenced."""
    present = image.producer_epoch
    if expected is None:
        return present + 1, NO_EPOCH
    if present == NO_EPOCH or (expected.epoch == present and not image.epoch_exhausted):
        return present + 1, present
    if expected.epoch == image.last_producer_epoch:
        # It missed the answer. Another producer would have set the last epoch to -1.
        return present, expected.epoch
    return None


def _answered(image: TransactionImage) -> Decision:
    return Decision(
        producer=ProducerIdAndEpoch(image.producer_id, image.producer_epoch), image=image
    )
