"""AddPartitionsToTxn v0-5 (key 24): partitions join a transaction, or a leader asks whether they
have (KIP-890).

* v0-3 come from clients, with one transaction; v2 knows PRODUCER_FENCED.
* v4-5 come from leaders, with several transactions. Adding stands for transaction.version 2, as in
  Kafka. v5 knows TRANSACTION_ABORTABLE; what a v4 leader makes of it is its own affair.
* A partition that this node's image does not have is refused with UNKNOWN_TOPIC_OR_PARTITION, and
  the others of its transaction with OPERATION_NOT_ATTEMPTED. Therefore a partition that an image
  does not have any more is deleted, and needs no marker.
"""

from collections.abc import Callable, Sequence

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic as RequestTopic,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequestAddPartitionsToTxnTransaction as RequestTransaction,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    decode_request,
    encode_response,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult as PartitionResult,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnResult as TransactionResult,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult as TopicResult,
)
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.calls import ShardOf
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.transitions import TV2
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from highwater.partition.transactions.handlers.fencing import fenced_for

BATCHED_FROM = 4
_KNOWS_PRODUCER_FENCED_FROM = 2

Exists = Callable[[InstanceId, TopicPartition], bool]
"""Whether the node's image has the partition of a topic of that instance."""


def handle(shard: TransactionShard, call: CoordinatorCall, now: Moment, *, exists: Exists) -> bytes:
    """v0-3: one transaction."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    transaction = RequestTransaction(
        transactional_id=body.v3_and_below_transactional_id,
        producer_id=body.v3_and_below_producer_id,
        producer_epoch=body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    codes = {
        partition: fenced_for(code, version, knows_from=_KNOWS_PRODUCER_FENCED_FROM)
        for partition, code in verify_or_add(
            shard,
            TransactionKey(call.instance, transaction.transactional_id),
            _producer(transaction),
            _partitions(transaction),
            0,
            now,
            exists=exists,
        ).items()
    }
    results = _results(transaction.topics, codes)
    return encode_response(
        AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results), version
    )


def handle_batch(
    shard_of: ShardOf[TransactionShard], call: CoordinatorCall, now: Moment, *, exists: Exists
) -> bytes:
    """v4-5: several transactions, each in its own shard."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    results = []
    for transaction in body.transactions:
        shard = shard_of(transaction.transactional_id)
        partitions = _partitions(transaction)
        if isinstance(shard, ErrorCode):
            codes = dict.fromkeys(partitions, shard)
        else:
            codes = verify_or_add(
                shard,
                TransactionKey(call.instance, transaction.transactional_id),
                _producer(transaction),
                partitions,
                None if transaction.verify_only else TV2,
                now,
                exists=exists,
            )
        results.append(
            TransactionResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, codes),
            )
        )
    return encode_response(AddPartitionsToTxnResponse(results_by_transaction=results), version)


def verify_or_add(
    shard: TransactionShard,
    key: TransactionKey,
    producer: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    add_as: int | None,
    now: Moment,
    *,
    exists: Exists,
) -> dict[TopicPartition, ErrorCode]:
    """Partitions of one transaction join it, if the request stands for that transaction.version; with
    None it is asked whether they have.
    """
    if add_as is None:
        return shard.verify(key, producer, partitions)
    missing = [partition for partition in partitions if not exists(key.instance, partition)]
    if missing:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return codes
    error = shard.add(key, producer, partitions, add_as, now)
    return dict.fromkeys(partitions, error)


def _producer(transaction: RequestTransaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _partitions(transaction: RequestTransaction) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, partition)
        for topic in transaction.topics
        for partition in topic.partitions
    )


def _results(
    topics: Sequence[RequestTopic], codes: dict[TopicPartition, ErrorCode]
) -> list[TopicResult]:
    """In the order of the request."""
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                PartitionResult(
                    partition_index=partition,
                    partition_error_code=codes[TopicPartition(topic.name, partition)],
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
