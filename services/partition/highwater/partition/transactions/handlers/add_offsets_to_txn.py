"""AddOffsetsToTxn v0-4 (key 25): the partition that has a group's offsets joins the transaction.

* v2 knows PRODUCER_FENCED. Clients of transaction.version 2 do not send it (KIP-890).
* While the group's partition does not exist, as far as this node knows, the answer is
  COORDINATOR_LOAD_IN_PROGRESS, so that clients ask again: nobody could tell it the end.
"""

from collections.abc import Callable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnResponse,
    decode_request,
    encode_response,
)
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from highwater.partition.transactions.handlers.add_partitions_to_txn import Exists
from highwater.partition.transactions.handlers.fencing import fenced_for

_KNOWS_PRODUCER_FENCED_FROM = 2


def handle(
    shard: TransactionShard,
    call: CoordinatorCall,
    now: Moment,
    *,
    partition_of: Callable[[InstanceId, str], TopicPartition],
    exists: Exists,
) -> bytes:
    """`partition_of` finds the partition that has a group's offsets."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    partition = partition_of(call.instance, body.group_id)
    if exists(call.instance, partition):
        error = shard.add(
            TransactionKey(call.instance, body.transactional_id),
            ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            frozenset({partition}),
            0,
            now,
        )
    else:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    error = fenced_for(error, version, knows_from=_KNOWS_PRODUCER_FENCED_FROM)
    return encode_response(AddOffsetsToTxnResponse(error_code=error), version)
