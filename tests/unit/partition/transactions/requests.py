"""Requests to a transaction coordinator, about the transactional id "tx" unless told otherwise."""

from highwater.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
    AddPartitionsToTxnRequestAddPartitionsToTxnTransaction,
)
from highwater.kafka.messages.end_txn import EndTxnRequest
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest


def init(name="tx", *, timeout_ms=60_000, producer=(-1, -1)):
    return InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )


def topics(*partitions):
    return [AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name="t", partitions=list(partitions))]


def add(producer, *partitions, name="tx"):
    """v0-3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics(*partitions),
    )


def batch(*transactions):
    """v4-5, of `one`."""
    return AddPartitionsToTxnRequest(transactions=list(transactions))


def one(producer, *partitions, name="tx", verify_only=False):
    return AddPartitionsToTxnRequestAddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=topics(*partitions),
    )


def offsets(producer, group="g", name="tx"):
    return AddOffsetsToTxnRequest(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )


def end(producer, *, commit=True, name="tx"):
    return EndTxnRequest(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )


def producer_of(response):
    return response.producer_id, response.producer_epoch


def codes(response):
    """{partition: code} of AddPartitionsToTxn v0-3."""
    return {
        each.partition_index: each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


def batch_codes(response):
    """{transactional id: {partition: code}} of AddPartitionsToTxn v4-5."""
    return {
        result.transactional_id: {
            each.partition_index: each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
