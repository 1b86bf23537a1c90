"""DescribeTransactions v0 (key 65, KIP-664): each id is answered by the shard that has it.

Of a transaction that is prepared, only the partitions without a marker are told.
"""

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_transactions import (
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
    decode_request,
    encode_response,
)
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.calls import ShardOf
from highwater.partition.transactions.core.image import TransactionKey
from highwater.partition.transactions.core.shard import TransactionShard


def handle(shard_of: ShardOf[TransactionShard], call: CoordinatorCall) -> bytes:
    """In the order of the request."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    states = [_describe(shard_of, call.instance, each) for each in body.transactional_ids]
    return encode_response(DescribeTransactionsResponse(transaction_states=states), version)


def _describe(
    shard_of: ShardOf[TransactionShard], instance: InstanceId, transactional_id: str
) -> DescribeTransactionsResponseTransactionState:
    shard = shard_of(transactional_id)
    key = TransactionKey(instance, transactional_id)
    found = shard if isinstance(shard, ErrorCode) else shard.describe(key)
    if isinstance(found, ErrorCode):
        return DescribeTransactionsResponseTransactionState(
            error_code=found, transactional_id=transactional_id
        )
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    image = found.image
    return DescribeTransactionsResponseTransactionState(
        transactional_id=transactional_id,
        transaction_state=image.state.value,
        transaction_timeout_ms=image.timeout_ms,
        transaction_start_time_ms=image.start_ms,
        producer_id=image.producer_id,
        producer_epoch=image.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopicData(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
