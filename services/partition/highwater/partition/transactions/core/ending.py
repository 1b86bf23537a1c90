"""EndTxn, and aborts that nobody asked for. Kafka: `TransactionCoordinator.endTransaction` and
`endTransactionWithTV1`.

With transaction.version 2 (EndTxn 5, KIP-890) every end bumps the epoch and the answer has the new
one. So a producer that sends EndTxn again names the epoch before the present one, and the present
epoch means the next transaction:

    at rest         | abort again | abort now | commit again | commit now
    Empty           | fenced      | prepare   | fenced       | INVALID_TXN_STATE
    CompleteAbort   | done        | prepare   | INVALID...   | INVALID_TXN_STATE
    CompleteCommit  | INVALID...  | prepare   | done         | INVALID_TXN_STATE

Below, an end that is asked for again succeeds in the state that it led to, and nothing can end that
has not begun.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core import transitions
from highwater.partition.transactions.core.image import (
    EPOCH_MAX,
    NO_PRODUCER_ID,
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
    PREPARED,
)
from highwater.partition.transactions.core.transitions import TV2
from highwater.partition.transactions.core.values import (
    NO_PRODUCER,
    Decision,
    EndRequest,
    NewProducerId,
    ProducerIdAndEpoch,
    refused,
)


def end(
    image: TransactionImage | None, request: EndRequest, new_id: NewProducerId, wall_ms: int
) -> Decision:
    """Decides a transaction, or tells why it cannot be decided so."""
    if image is None:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.version >= TV2:
        return _end_and_bump(image, request, new_id, wall_ms)
    return _end(image, request, wall_ms)


def fence(image: TransactionImage, version: int, new_id: NewProducerId, wall_ms: int) -> Decision:
    """Aborts an open transaction and keeps its producer out, because it took too long or another
    one initializes the transactional id. `version` is the cluster's transaction.version.

    Unlike Kafka, the abort of the last epoch also leads to another producer id, so that a producer
    that asks for the abort again never gets the epoch that is kept for markers.
    """
    next_id = _next_id(image, version, new_id)
    if next_id is None:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return Decision(image=transitions.fenced(image, version, next_id, wall_ms))


def _end(image: TransactionImage, request: EndRequest, wall_ms: int) -> Decision:
    """Transaction.version 0 and 1: the epoch stays."""
    if image.producer_id != request.producer.producer_id:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if image.producer_epoch != request.producer.epoch:
        return refused(ErrorCode.PRODUCER_FENCED)
    if image.state is (PREPARE_COMMIT if request.commit else PREPARE_ABORT):
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if image.state is ONGOING:
        following = transitions.prepared(
            image,
            commit=request.commit,
            version=request.version,
            next_id=NO_PRODUCER_ID,
            wall_ms=wall_ms,
        )
        return Decision(image=following)
    if image.state is (COMPLETE_COMMIT if request.commit else COMPLETE_ABORT):
        return Decision()
    return refused(ErrorCode.INVALID_TXN_STATE)


def _end_and_bump(
    image: TransactionImage, request: EndRequest, new_id: NewProducerId, wall_ms: int
) -> Decision:
    """Transaction.version 2: see the table at the top."""
    if image.state in PREPARED:
        # First of all: the producer may already have the id or the epoch that follows the end.
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    overflowed = (
        image.previous_producer_id == request.producer.producer_id != image.producer_id
        and request.producer.epoch == EPOCH_MAX - 1
        and image.producer_epoch == 0
    )
    if image.producer_id != request.producer.producer_id and not overflowed:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # No client is ever given the largest epoch, also not as the answer to a repeated request.
    bumped = image.producer_epoch == request.producer.epoch + 1 < EPOCH_MAX
    again = overflowed or bumped
    if again and image.state in (EMPTY, ONGOING):
        return refused(ErrorCode.PRODUCER_FENCED)
    if not again and image.producer_epoch != request.producer.epoch:
        return refused(ErrorCode.PRODUCER_FENCED)
    if again:
        if image.state is (COMPLETE_COMMIT if request.commit else COMPLETE_ABORT):
            return Decision(producer=ProducerIdAndEpoch(image.producer_id, image.producer_epoch))
        return refused(ErrorCode.INVALID_TXN_STATE)
    if request.commit and image.state in AT_REST:
        return refused(ErrorCode.INVALID_TXN_STATE)
    next_id = _next_id(image, request.version, new_id)
    if next_id is None:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    following = transitions.prepared(
        image, commit=request.commit, version=request.version, next_id=next_id, wall_ms=wall_ms
    )
    return Decision(image=following, producer=after_end(following))


def after_end(image: TransactionImage) -> ProducerIdAndEpoch:
    """The producer as a prepared transaction leaves it."""
    if image.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(image.next_producer_id, 0)
    if image.client_version < TV2:
        return NO_PRODUCER
    return ProducerIdAndEpoch(image.producer_id, image.producer_epoch)


def _next_id(image: TransactionImage, version: int, new_id: NewProducerId) -> int | None:
    """Another producer id if the end of the transaction uses up the last epoch, else -1."""
    return new_id() if version >= TV2 and image.epoch_exhausted else NO_PRODUCER_ID
