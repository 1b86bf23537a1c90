"""Encodes Fetch replies by the generated codec; records are bytes or ranges of segment files.

`core.fetch_shape` packs the usual reply instead: one partition without an error.
"""

import errno
import os
from collections.abc import Sequence
from typing import Final

from highwater.gateway.core.reply import Part
from highwater.gateway.routing.brokers import Entrance
from highwater.gateway.routing.current_leader import CurrentLeader, leader_for_error
from highwater.gateway.routing.table import TopicRoutes
from highwater.hop.fetch import BUFFERS, SMALL_RANGE, FetchedPartition, FileRange
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_response_header
from highwater.kafka.messages import fetch as codec
from highwater.kafka.primitives import Buffer

CURRENT_LEADER_FROM: Final = 12
"""Version from which a refusal names the current leader (KIP-595)."""
ENDPOINTS_FROM: Final = 16
"""Version from which a reply has the addresses of these leaders (KIP-951)."""
TOPIC_IDS_FROM: Final = 13
"""Version from which topics have ids in place of names (KIP-516)."""
OFFSET_NOT_AVAILABLE_FROM: Final = 11
"""Version from which all clients know this code: Java 2.2 throws it out of poll(). Kafka never sends it."""
STORAGE_ERROR_FROM: Final = 6
"""Version from which clients know KAFKA_STORAGE_ERROR (`FetchRequest`: KIP-112)."""
_WOULD_BLOCK: Final = (errno.EAGAIN, errno.EOPNOTSUPP)


def encode_parts(
    version: int,
    correlation_id: int,
    topics: list[codec.FetchResponseFetchableTopicResponse],
    throttle_ms: int,
    leaders: Sequence[CurrentLeader] = (),
    session_id: int = 0,
) -> list[Part]:
    """A whole reply by the generated codec, with file ranges as separate parts.

    From version 16 on it has the addresses of `leaders`.
    """
    if version < STORAGE_ERROR_FROM:
        # `partition_data` may have found that a disk has failed, after `settle_refusal`.
        for topic in topics:
            for data in topic.partitions:
                data.error_code = _known_code(version, data.error_code)
    response = codec.FetchResponse(
        throttle_time_ms=throttle_ms, session_id=session_id, responses=topics
    )
    if leaders and version >= ENDPOINTS_FROM:
        brokers = {one.broker for one in leaders if one.broker is not None}
        response.node_endpoints = [
            codec.FetchResponseNodeEndpoint(
                broker.node_id, broker.host, broker.port, broker.rack or None
            )
            for broker in sorted(brokers)
        ]
    parts = codec.encode_response_parts(response, version)
    return _framed(encode_response_header(codec.API_KEY, version, correlation_id), parts)


def _framed(header: bytes, parts: Sequence[Buffer | FileRange]) -> list[Part]:
    """Adds size and header; joins neighbouring bytes into one part, keeps file ranges apart."""
    size = len(header)
    for part in parts:
        size += len(part) if isinstance(part, BUFFERS) else part.length
    framed: list[Part] = []
    run: list[Buffer] = [size.to_bytes(4, "big"), header]
    for part in parts:
        if isinstance(part, BUFFERS):
            run.append(part)
        else:
            if run:
                framed.append(b"".join(run))
                run = []
            framed.append(part)
    if run:
        framed.append(b"".join(run))
    return framed


def read_small(result: FetchedPartition, records: FileRange) -> None:
    """Reads a small range into bytes if it is in the page cache: one send instead of three calls.

    A node in this process has done so already, unless the first batch is larger than the client's
    limit; one in another process only with very small records (`fetch_stream.COPIED_BYTES_MAX`).
    A disk failure becomes this partition's error, as when a node reads for us.
    """
    buffer = bytearray(result.nbytes)
    try:
        if os.preadv(records.fd, [buffer], records.position, os.RWF_NOWAIT) != result.nbytes:
            return
    except OSError as error:
        if error.errno not in _WOULD_BLOCK:
            result.release()
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return  # Not in memory: a sender thread will wait for the disk.
    records.release()
    result.records = buffer


def settle_refusal(
    version: int,
    routes: TopicRoutes | None,
    partition: int,
    result: FetchedPartition,
    entrance: Entrance,
) -> CurrentLeader | None:
    """Gives an error the code of the client's version; returns the leader to tell with it.

    A topic that is not there, or not any more, is UNKNOWN_TOPIC_ID to a client that named it by its
    id (Kafka: `KafkaApis.handleFetchRequest`). None if there is no leader to tell.
    """
    if version < CURRENT_LEADER_FROM:
        result.error_code = _known_code(version, result.error_code)
        return None
    code = result.error_code
    if (
        version >= TOPIC_IDS_FROM
        and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and (routes is None or routes.gone)
    ):
        result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return None
    return leader_for_error(code, routes, partition, result.leader, result.leader_epoch, entrance)


def _known_code(version: int, code: int) -> int:
    """In place of a code that clients of this version do not know, one with which they look for the
    leader and fetch again (Kafka: `KafkaApis.maybeDownConvertStorageError`).
    """
    if (version < OFFSET_NOT_AVAILABLE_FROM and code == ErrorCode.OFFSET_NOT_AVAILABLE) or (
        version < STORAGE_ERROR_FROM and code == ErrorCode.KAFKA_STORAGE_ERROR
    ):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code


def partition_data(
    partition: int,
    result: FetchedPartition,
    current: CurrentLeader | None = None,
    *,
    may_copy: bool = True,
) -> codec.FetchResponsePartitionData:
    """One partition's part of a reply; a refusal has `current` (version 12 on).

    Without `may_copy`, a small range stays a range, which uses no memory while it waits.
    """
    if may_copy and 0 < result.nbytes <= SMALL_RANGE and not isinstance(result.records, BUFFERS):
        read_small(result, result.records)
    data = codec.FetchResponsePartitionData(
        partition_index=partition,
        error_code=result.error_code,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        preferred_read_replica=result.preferred_replica,
        records=result.records,
    )
    if result.aborted_transactions is None:
        data.aborted_transactions = None
    else:
        data.aborted_transactions = [
            codec.FetchResponseAbortedTransaction(producer_id=p, first_offset=o)
            for p, o in result.aborted_transactions
        ]
    if current is not None:
        data.current_leader = codec.FetchResponseLeaderIdAndEpoch(
            leader_id=current.leader, leader_epoch=current.leader_epoch
        )
    if result.diverging_epoch >= 0:
        data.diverging_epoch = codec.FetchResponseEpochEndOffset(
            epoch=result.diverging_epoch, end_offset=result.diverging_end_offset
        )
    return data
