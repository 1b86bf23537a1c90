"""InitProducerId v0-5 (key 22), with a transactional id; without one the gateway answers.

* v3 names the producer that wants to go on after an error (KIP-360); v4 knows PRODUCER_FENCED; v5
  comes from clients that know TRANSACTION_ABORTABLE.
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    decode_request,
    encode_response,
)
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.transactions.core.image import TransactionKey
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.values import (
    NO_PRODUCER,
    Decision,
    ProducerIdAndEpoch,
    refused,
)
from highwater.partition.transactions.handlers.fencing import fenced_for

_KNOWS_PRODUCER_FENCED_FROM = 4


def handle(shard: TransactionShard, call: CoordinatorCall, now: Moment) -> bytes:
    """The producer's id and epoch, once they are in the log."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    decision = _decide(shard, call.instance, body, now)
    error = fenced_for(decision.error, version, knows_from=_KNOWS_PRODUCER_FENCED_FROM)
    producer = NO_PRODUCER if error else decision.producer
    return encode_response(
        InitProducerIdResponse(
            error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch
        ),
        version,
    )


def _decide(
    shard: TransactionShard, instance: InstanceId, body: InitProducerIdRequest, now: Moment
) -> Decision:
    named = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    expected = None if named == NO_PRODUCER else named
    if expected is not None and -1 in expected:
        return refused(ErrorCode.INVALID_REQUEST)
    key = TransactionKey(instance, body.transactional_id or "")
    return shard.initialize(key, body.transaction_timeout_ms, expected, now)
