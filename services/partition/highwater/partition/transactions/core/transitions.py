"""From one image of a transactional id to the next; each checks what must hold (Kafka:
`TransactionMetadata.prepare...` and `completeTransitionTo`).

Kafka keeps a pending state beside the present one until the log has committed the record. Here the
shard is at the new state at once, and what must wait for the commit waits: every answer, and the
markers. If the append fails, the shard is loaded from the log again.
"""

from highwater.partition.transactions.core.image import (
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionImage,
)
from highwater.partition.transactions.core.state import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
    check_transition,
)

TV2 = 2
"""From this transaction.version on, the end of a transaction bumps the epoch (KIP-890)."""


def created(producer_id: int, timeout_ms: int, wall_ms: int) -> TransactionImage:
    """A transactional id that is not known yet; not to be written before `bumped`."""
    return TransactionImage(
        producer_id=producer_id, producer_epoch=NO_EPOCH, timeout_ms=timeout_ms, update_ms=wall_ms
    )


def bumped(
    image: TransactionImage, *, epoch: int, last_epoch: int, timeout_ms: int, wall_ms: int
) -> TransactionImage:
    """InitProducerId: the producer goes on in `epoch`, the present one or the next."""
    check_transition(image.state, EMPTY)
    assert image.producer_epoch <= epoch <= image.producer_epoch + 1
    assert 0 <= epoch < EPOCH_MAX
    return image._replace(
        previous_producer_id=image.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        update_ms=wall_ms,
    )


def rotated(
    image: TransactionImage,
    producer_id: int,
    *,
    last_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> TransactionImage:
    """InitProducerId: the producer goes on with another id, because the epochs are used up."""
    check_transition(image.state, EMPTY)
    assert image.epoch_exhausted
    assert producer_id != image.producer_id
    return image._replace(
        producer_id=producer_id,
        previous_producer_id=image.producer_id,
        producer_epoch=0,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        update_ms=wall_ms,
    )


def added(
    image: TransactionImage, partitions: frozenset[TopicPartition], version: int, wall_ms: int
) -> TransactionImage:
    """The transaction has these partitions, too; it begins if none is open."""
    check_transition(image.state, ONGOING)
    # Here and below not by `_replace`, which costs twice as much: every transaction comes by.
    return TransactionImage(
        producer_id=image.producer_id,
        producer_epoch=image.producer_epoch,
        timeout_ms=image.timeout_ms,
        update_ms=wall_ms,
        previous_producer_id=image.producer_id,
        next_producer_id=image.next_producer_id,
        last_producer_epoch=image.last_producer_epoch,
        state=ONGOING,
        partitions=image.partitions | partitions,
        start_ms=wall_ms if image.state in AT_REST else image.start_ms,
        client_version=version,
    )


def fenced(image: TransactionImage, version: int, next_id: int, wall_ms: int) -> TransactionImage:
    """Abort an open transaction and keep its producer out.

    The epoch grows by one: below transaction.version 2 for this, from then on because every end of
    a transaction bumps it. `next_id`: as in `prepared`.
    """
    check_transition(image.state, PREPARE_EPOCH_FENCE)
    if version < TV2:
        # At the largest epoch there is nobody left to fence.
        epoch = min(image.producer_epoch + 1, EPOCH_MAX)
        image = image._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    return prepared(
        image._replace(state=PREPARE_EPOCH_FENCE),
        commit=False,
        version=version,
        next_id=next_id,
        wall_ms=wall_ms,
    )


def prepared(
    image: TransactionImage, *, commit: bool, version: int, next_id: int, wall_ms: int
) -> TransactionImage:
    """The transaction's end is decided.

    `next_id`: another producer id if the epochs are used up and the end bumps the epoch, else -1.
    """
    target = PREPARE_COMMIT if commit else PREPARE_ABORT
    check_transition(image.state, target)
    epoch, last_epoch = image.producer_epoch, image.last_producer_epoch
    if version >= TV2:
        assert (next_id != NO_PRODUCER_ID) == image.epoch_exhausted
        # No producer is given the largest epoch, so markers' epochs are above those of records.
        epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
    at_rest = image.state in AT_REST
    return TransactionImage(
        producer_id=image.producer_id,
        producer_epoch=epoch,
        timeout_ms=image.timeout_ms,
        update_ms=wall_ms,
        previous_producer_id=image.producer_id,
        next_producer_id=next_id,
        last_producer_epoch=last_epoch,
        state=target,
        partitions=frozenset() if at_rest else image.partitions,
        # An abort of nothing begins when it ends.
        start_ms=wall_ms if at_rest else image.start_ms,
        client_version=version,
    )


def completed(image: TransactionImage, wall_ms: int) -> TransactionImage:
    """All markers are written."""
    target = COMPLETE_COMMIT if image.state is PREPARE_COMMIT else COMPLETE_ABORT
    check_transition(image.state, target)
    assert image.state in PREPARED
    overflowed = image.next_producer_id != NO_PRODUCER_ID
    return TransactionImage(
        producer_id=image.next_producer_id if overflowed else image.producer_id,
        producer_epoch=0 if overflowed else image.producer_epoch,
        timeout_ms=image.timeout_ms,
        update_ms=wall_ms,
        previous_producer_id=image.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=image.last_producer_epoch,
        state=target,
        partitions=frozenset(),
        start_ms=image.start_ms,
        client_version=image.client_version,
    )
