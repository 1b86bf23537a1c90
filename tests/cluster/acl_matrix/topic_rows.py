"""Rows of requests about topics and their records."""

from __future__ import annotations

from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import (
    create_partitions,
    create_topics,
    delete_records,
    metadata,
    produce,
)
from highwater.kafka.messages import delete_topics as deleting
from highwater.kafka.messages import describe_producers as producers
from highwater.kafka.messages import describe_topic_partitions as partitions
from highwater.kafka.messages import list_offsets as offsets
from highwater.kafka.messages import offset_for_leader_epoch as epochs
from highwater.kafka.records.builder import RecordBatchBuilder
from tests.cluster.acl_matrix.rows import (
    HIDDEN,
    REACHED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    C,
    Names,
    Need,
    Op,
    Row,
    T,
    X,
    first,
)
from tests.conformance.protocol.requests import fetch_request
from tests.support.wire import only


def _records(*, transactional: bool = False) -> bytes:
    # Of a producer that has not begun: never stored, so that the log does not grow.
    builder = RecordBatchBuilder(
        producer_id=7_000_000, producer_epoch=0, base_sequence=5, transactional=transactional
    )
    builder.append(key=b"key", value=b"value", timestamp_ms=1_000)
    return builder.build()


def _produce(
    names: Names, *, by_id: bool = False, transactional: bool = False
) -> produce.ProduceRequest:
    part = produce.ProduceRequestPartitionProduceData(0, _records(transactional=transactional))
    topic = produce.ProduceRequestTopicProduceData(
        "" if by_id else names.topic, names.topic_id if by_id else bytes(16), [part]
    )
    return produce.ProduceRequest(
        names.transactional_id if transactional else None, -1, 10_000, [topic]
    )


def _metadata(names: Names, *, create: bool = False, by_id: bool = False) -> Any:
    topic = metadata.MetadataRequestMetadataRequestTopic(
        names.topic_id if by_id else bytes(16), None if by_id else names.topic
    )
    return metadata.MetadataRequest([topic], allow_auto_topic_creation=create)


def _all_topics(answer: Any, names: Names) -> int:
    return ErrorCode.NONE if names.topic in {one.name for one in answer.topics} else HIDDEN


def _create(names: Names) -> Any:
    topic = create_topics.CreateTopicsRequestCreatableTopic(names.topic, 1, 1)
    return create_topics.CreateTopicsRequest([topic], 10_000, validate_only=True)


def _delete(names: Names, *, by_id: bool = False) -> Any:
    wanted = deleting.DeleteTopicsRequestDeleteTopicState(
        None if by_id else names.topic, names.topic_id if by_id else bytes(16)
    )
    return deleting.DeleteTopicsRequest([wanted], timeout_ms=10_000)


def _epochs(names: Names) -> Any:
    part = epochs.OffsetForLeaderEpochRequestOffsetForLeaderPartition(0, -1, 0)
    topic = epochs.OffsetForLeaderEpochRequestOffsetForLeaderTopic(names.topic, [part])
    return epochs.OffsetForLeaderEpochRequest(-1, [topic])


def _offsets(names: Names) -> Any:
    part = offsets.ListOffsetsRequestListOffsetsPartition(0, -1, -1)
    return offsets.ListOffsetsRequest(
        -1, 0, [offsets.ListOffsetsRequestListOffsetsTopic(names.topic, [part])]
    )


def _delete_records(names: Names) -> Any:
    part = delete_records.DeleteRecordsRequestDeleteRecordsPartition(0, 0)
    return delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsRequestDeleteRecordsTopic(names.topic, [part])], 10_000
    )


def _described(answer: Any, _names: Names) -> int:
    code: int = only(answer.topics).error_code
    return code


_STORED = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.NONE)
)
_PRODUCED = first("responses", "partition_responses")
_FETCHED = first("responses", "partitions")

TOPIC_ROWS = (
    Row(
        name="",
        request=_produce,
        version=9,
        code=_PRODUCED,
        needs=(Need(Op.WRITE, T),),
        denied=TOPIC_DENIED,
        allowed=_STORED,
    ),
    Row(
        name="by-id",
        request=lambda names: _produce(names, by_id=True),
        version=13,
        code=_PRODUCED,
        needs=(Need(Op.WRITE, T),),
        denied=TOPIC_DENIED,
        allowed=_STORED,
    ),
    Row(
        name="transaction",
        request=lambda names: _produce(names, transactional=True),
        version=9,
        code=_PRODUCED,
        needs=(Need(Op.WRITE, X),),
        given=(Need(Op.WRITE, T),),
        denied=TRANSACTION_DENIED,
        allowed=REACHED,
    ),
    Row(
        name="transaction-topic",
        request=lambda names: _produce(names, transactional=True),
        version=9,
        code=_PRODUCED,
        needs=(Need(Op.WRITE, T),),
        given=(Need(Op.WRITE, X),),
        denied=TOPIC_DENIED,
        allowed=REACHED,
    ),
    Row(
        name="",
        request=lambda names: fetch_request(names.topic, {0: 0}, max_wait_ms=0),
        version=12,
        code=_FETCHED,
        needs=(Need(Op.READ, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="by-id",
        request=lambda names: fetch_request("", {0: 0}, max_wait_ms=0, by_id=names.topic_id),
        version=17,
        code=_FETCHED,
        needs=(Need(Op.READ, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=_offsets,
        version=7,
        code=first("topics", "partitions"),
        needs=(Need(Op.DESCRIBE, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=_metadata,
        version=12,
        code=_described,
        needs=(Need(Op.DESCRIBE, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="by-id",
        request=lambda names: _metadata(names, by_id=True),
        version=12,
        code=_described,
        needs=(Need(Op.DESCRIBE, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="all",
        request=lambda _names: metadata.MetadataRequest(None),
        version=12,
        code=_all_topics,
        needs=(Need(Op.DESCRIBE, T),),
        denied=HIDDEN,
    ),
    Row(
        name="creating",
        request=lambda names: _metadata(names, create=True),
        version=12,
        code=_described,
        needs=(Need(Op.CREATE, T), Need(Op.CREATE, C)),
        given=(Need(Op.DESCRIBE, T),),
        denied=TOPIC_DENIED,
        allowed=frozenset((ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)),
        spare=True,
        prepare="remove_topic",
    ),
    Row(
        name="",
        request=lambda names: partitions.DescribeTopicPartitionsRequest(
            [partitions.DescribeTopicPartitionsRequestTopicRequest(names.topic)]
        ),
        version=0,
        code=_described,
        needs=(Need(Op.DESCRIBE, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=_create,
        version=7,
        code=first("topics"),
        needs=(Need(Op.CREATE, T), Need(Op.CREATE, C)),
        denied=TOPIC_DENIED,
        spare=True,
        prepare="remove_topic",
    ),
    Row(
        name="",
        request=_delete,
        version=6,
        code=first("responses"),
        needs=(Need(Op.DELETE, T), Need(Op.DELETE, C)),
        denied=TOPIC_DENIED,
        spare=True,
        prepare="make_topic",
    ),
    Row(
        name="",
        request=_delete_records,
        version=2,
        code=first("topics", "partitions"),
        needs=(Need(Op.DELETE, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=lambda names: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsRequestCreatePartitionsTopic(names.topic, 3, None)],
            10_000,
            validate_only=True,
        ),
        version=3,
        code=first("results"),
        needs=(Need(Op.ALTER, T),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=_epochs,
        version=4,
        code=first("topics", "partitions"),
        needs=(Need(Op.DESCRIBE, T), Need(Op.CLUSTER_ACTION, C)),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=lambda names: producers.DescribeProducersRequest(
            [producers.DescribeProducersRequestTopicRequest(names.topic, [0])]
        ),
        version=0,
        code=first("topics", "partitions"),
        needs=(Need(Op.READ, T),),
        denied=TOPIC_DENIED,
    ),
)
