"""EndTxn v0-5 (key 26), answered when the decision is in the log; markers follow.

* v2 knows PRODUCER_FENCED. v5 bumps the epoch and answers the producer's next id and epoch, and may
  abort a transaction that has not begun here (KIP-890).
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.messages.end_txn import (
    EndTxnRequest,
    EndTxnResponse,
    decode_request,
    encode_response,
)
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.transactions.core.image import TransactionKey
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.transitions import TV2
from highwater.partition.transactions.core.values import (
    NO_PRODUCER,
    EndRequest,
    ProducerIdAndEpoch,
)
from highwater.partition.transactions.handlers.fencing import fenced_for

_KNOWS_PRODUCER_FENCED_FROM = 2
_BUMPS_FROM = 5


def handle(shard: TransactionShard, call: CoordinatorCall, now: Moment) -> bytes:
    """Commits or aborts."""
    version = call.api_version
    known = call.request
    body = known if isinstance(known, EndTxnRequest) else decode_request(call.body, 0, version)
    request = EndRequest(
        producer=ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        commit=body.committed,
        version=TV2 if version >= _BUMPS_FROM else 0,
    )
    decision = shard.end(TransactionKey(call.instance, body.transactional_id), request, now)
    error = fenced_for(decision.error, version, knows_from=_KNOWS_PRODUCER_FENCED_FROM)
    producer = NO_PRODUCER if error else decision.producer
    return encode_response(
        EndTxnResponse(
            error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch
        ),
        version,
    )
