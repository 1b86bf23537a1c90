"""Encodes Produce replies by the generated codec, and what clients are told of failures.

`core.produce_reply` packs the usual reply instead: one partition without an error.
"""

from typing import Final, TypeAlias

from highwater.gateway.core.produce_reply import TOPIC_IDS_FROM, Stored
from highwater.gateway.routing.brokers import Entrance
from highwater.gateway.routing.current_leader import CurrentLeader, leader_for_error
from highwater.gateway.routing.table import TopicRoutes
from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_response_header, frame
from highwater.kafka.messages import produce as codec

CURRENT_LEADER_FROM: Final = 10
"""Version from which a refusal names the current leader and its address (KIP-951)."""
STORAGE_ERROR_FROM: Final = 4
"""Version from which producers know KAFKA_STORAGE_ERROR; others fail the batch for good."""
ABORTABLE_FROM: Final = 11
"""Version from which producers know TRANSACTION_ABORTABLE (KIP-890)."""

PartitionResult: TypeAlias = codec.ProduceResponsePartitionProduceResponse
TopicKey: TypeAlias = tuple[str, bytes]
"""A topic as its request names it: its name and no id, or from version 13 on its id and no name."""


def current_leader(
    version: int, routes: TopicRoutes | None, partition: int, failure: Failure, entrance: Entrance
) -> CurrentLeader | None:
    """The leader that a refusal names, if it names one."""
    if version < CURRENT_LEADER_FROM:
        return None
    code = failure.error_code
    return leader_for_error(code, routes, partition, failure.leader, failure.leader_epoch, entrance)


def told(version: int, failure: Failure, routes: TopicRoutes | None) -> Failure:
    """The failure as clients of this version know it.

    A topic that is not there, or not any more, is unknown by its id (Kafka:
    `KafkaApis.handleProduceRequest`). A transaction that can only be aborted is INVALID_TXN_STATE for
    older producers (`AddPartitionsToTxnManager`). With a failed or full disk, producers that do not
    know its error look for the leader and send again.
    """
    code = failure.error_code
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return Failure(ErrorCode.INVALID_TXN_STATE, failure.message, outcome=failure.outcome)
    if code == ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        return Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, failure.message, outcome=failure.outcome)
    if (
        version < TOPIC_IDS_FROM
        or code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        or (routes is not None and not routes.gone)
    ):
        return failure
    return Failure(ErrorCode.UNKNOWN_TOPIC_ID, failure.message)


def appended(stored: Stored) -> PartitionResult:
    """A partition's result as the codec knows it."""
    partition, base_offset, log_append_time_ms, log_start_offset = stored
    return PartitionResult(
        index=partition,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )


def failed_partition(
    partition: int, failure: Failure, current: CurrentLeader | None
) -> PartitionResult:
    """A partition's error as sent to the client."""
    return PartitionResult(
        index=partition,
        error_code=failure.error_code,
        base_offset=-1,
        error_message=failure.message or None,
        record_errors=[
            codec.ProduceResponseBatchIndexAndErrorMessage(index, message)
            for index, message in failure.record_errors
        ],
        current_leader=(
            None
            if current is None
            else codec.ProduceResponseLeaderIdAndEpoch(
                leader_id=current.leader, leader_epoch=current.leader_epoch
            )
        ),
    )


def encode_reply(
    version: int,
    correlation_id: int,
    topics: list[tuple[TopicKey, list[PartitionResult]]],
    throttle_ms: int,
    leaders: list[CurrentLeader],
) -> bytes:
    """A whole frame by the generated codec, with the addresses of `leaders`."""
    brokers = {one.broker for one in leaders if one.broker is not None}
    body = codec.encode_response(
        codec.ProduceResponse(
            responses=[
                codec.ProduceResponseTopicProduceResponse(name, topic_id, results)
                for (name, topic_id), results in topics
            ],
            throttle_time_ms=throttle_ms,
            node_endpoints=[
                codec.ProduceResponseNodeEndpoint(
                    broker.node_id, broker.host, broker.port, broker.rack or None
                )
                for broker in sorted(brokers)
            ],
        ),
        version,
    )
    return frame(encode_response_header(codec.API_KEY, version, correlation_id), body)
