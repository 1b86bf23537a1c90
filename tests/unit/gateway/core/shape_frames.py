"""Produce and Fetch frames as clients encode them, and what the generated codec reads in them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from highwater.gateway.core import fetch_shape, produce_reply, produce_shape
from highwater.hop.append import TransactionalWrite
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import (
    decode_request_header,
    encode_request_header,
    encode_response_header,
)
from highwater.kafka.messages import fetch, produce

PRODUCE_BY_ID_FROM = FETCH_BY_ID_FROM = 13


def topic_id_of(topic: str) -> bytes:
    """The id that `controller_images.topic_state` gives a topic with a short name."""
    return topic.encode().ljust(16, b"\1")[:16]


def produce_frame(
    version: int,
    *,
    correlation_id: int = 1,
    client_id: str | None = "client",
    transactional_id: str | None = None,
    acks: int = 1,
    timeout_ms: int = 30_000,
    topic: str = "orders",
    partition: int = 0,
    records: bytes | None = b"b" * 70,
    others: Sequence[tuple[int, bytes | None]] = (),
) -> bytearray:
    """`others` are further partitions and their records."""
    request = produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name=topic,
                topic_id=topic_id_of(topic),
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=index, records=batch)
                    for index, batch in [(partition, records), *others]
                ],
            )
        ],
    )
    header = encode_request_header(0, version, correlation_id, client_id)
    return bytearray(header + produce.encode_request(request, version))


def produce_meaning(frame: bytearray) -> tuple[Any, ...] | None:
    """What the codec reads; None if it refuses, or if there is not one topic with one partition."""
    several = produce_meaning_of_several(frame)
    if several is None or len(several[-1]) != 1:
        return None
    return (*several[:-1], *several[-1][0])


def produce_meaning_of_several(frame: bytearray) -> tuple[Any, ...] | None:
    """What the codec reads, at the end (partition, records) of each; None if it refuses, or if there is not
    one topic with a partition.
    """
    try:
        header = decode_request_header(frame)
        request = produce.decode_request(frame, header.body_pos, header.api_version)
    except DecodeError:
        return None
    if len(request.topic_data) != 1 or not request.topic_data[0].partition_data:
        return None
    [topic] = request.topic_data
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        _named(topic.name, topic.topic_id),
        [
            (data.index, None if data.records is None else bytes(data.records))
            for data in topic.partition_data
        ],
    )


def _named(name: str, topic_id: bytes) -> str | bytes:
    """What a version names a topic by."""
    return name if topic_id == bytes(16) else topic_id


def learn_produce(frame: bytearray) -> produce_shape.ProduceShape | None:
    """Learn the shape as the Produce path does after the codec has decoded the frame."""
    meaning = produce_meaning_of_several(frame)
    if meaning is None or not all(records for _, records in meaning[-1]):
        return None
    transactional_id, acks, timeout_ms, topic, places = meaning
    version = decode_request_header(frame).api_version
    if len(places) > (126 if version >= produce_shape.FLEXIBLE_FROM else 1):
        return None
    name = topic if version >= PRODUCE_BY_ID_FROM else topic.encode()
    return produce_shape.learn(
        frame,
        version,
        [len(records) for _, records in places],
        acks,
        timeout_ms,
        topic,
        produce_reply.name_part(version, name, name),
        produce_reply.reply_struct(version, len(name)),
        None if transactional_id is None else TransactionalWrite(transactional_id, version >= 12),
    )


def matched_produce(shape: produce_shape.ProduceShape, frame: bytearray) -> tuple[Any, ...] | None:
    """What the shape reads in a frame for one partition."""
    if int.from_bytes(frame[2:4], "big") != shape.version:
        return None
    found = produce_shape.match(shape, frame)
    if found is None:
        return None
    partition, start, end = found
    return (*_repeated(shape), partition, bytes(frame[start:end]))


def matched_several(shape: produce_shape.ProduceShape, frame: bytearray) -> tuple[Any, ...] | None:
    """What the shape reads in a frame for several partitions."""
    if int.from_bytes(frame[2:4], "big") != shape.version:
        return None
    found = produce_shape.match_several(shape, frame)
    if found is None:
        return None
    places = [(partition, bytes(frame[start:end])) for partition, start, end in found]
    return (*_repeated(shape), places)


def _repeated(shape: produce_shape.ProduceShape) -> tuple[Any, ...]:
    write = shape.transaction
    transactional_id = None if write is None else write.transactional_id
    return transactional_id, shape.acks, shape.timeout_ms, shape.topic


def fetch_frame(
    version: int,
    *,
    correlation_id: int = 1,
    client_id: str | None = "client",
    topic: str = "orders",
    rack_id: str = "",
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    isolation_level: int = 0,
    session_epoch: int = 0,
    **asked: int,
) -> bytearray:
    partition = fetch.FetchRequestFetchPartition(**{"partition_max_bytes": 1 << 20, **asked})
    request = fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_epoch=session_epoch if version >= 7 else -1,
        topics=[fetch.FetchRequestFetchTopic(topic, topic_id_of(topic), [partition])],
        rack_id=rack_id if version >= 11 else "",
    )
    header = encode_request_header(1, version, correlation_id, client_id)
    return bytearray(header + fetch.encode_request(request, version))


def fetch_request(frame: bytearray) -> Any:
    """The decoded request; None if the codec refuses it or it asks for other than one partition."""
    try:
        header = decode_request_header(frame)
        request = fetch.decode_request(frame, header.body_pos, header.api_version)
    except DecodeError:
        return None
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    return request


def fetch_meaning(frame: bytearray) -> tuple[Any, ...] | None:
    """All fields that repeat, and then the result of `match`."""
    request = fetch_request(frame)
    if request is None:
        return None
    asked = request.topics[0].partitions[0]
    return (
        request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        _named(request.topics[0].topic, request.topics[0].topic_id),
        (
            asked.partition,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.partition_max_bytes,
        ),
    )


def learn_fetch(frame: bytearray) -> fetch_shape.FetchShape | None:
    """Learn the shape as the Fetch path does after the codec has decoded the frame."""
    request = fetch_request(frame)
    if request is None:
        return None
    version = decode_request_header(frame).api_version
    return fetch_shape.learn(frame, version, request.topics[0].partitions[0], None)


def produce_reply_by_codec(version: int, correlation_id: int, topic: str, result: Any) -> bytes:
    """The whole frame as the generated encoder writes it."""
    body = produce.encode_response(
        produce.ProduceResponse(
            responses=[
                produce.ProduceResponseTopicProduceResponse(
                    name=topic,
                    topic_id=topic_id_of(topic),
                    partition_responses=[
                        produce.ProduceResponsePartitionProduceResponse(
                            index=result.partition,
                            error_code=result.error_code,
                            base_offset=result.base_offset,
                            log_append_time_ms=result.log_append_time_ms,
                            log_start_offset=result.log_start_offset,
                        )
                    ],
                )
            ],
            throttle_time_ms=result.throttle_ms,
        ),
        version,
    )
    header = encode_response_header(0, version, correlation_id)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def fetch_reply_by_codec(
    version: int, correlation_id: int, topic: str, partition: int, result: SimpleNamespace
) -> bytes:
    """The whole frame as the generated encoder writes it, records included."""
    body = fetch.encode_response(
        fetch.FetchResponse(
            throttle_time_ms=result.throttle_ms,
            responses=[
                fetch.FetchResponseFetchableTopicResponse(
                    topic=topic,
                    topic_id=topic_id_of(topic),
                    partitions=[
                        fetch.FetchResponsePartitionData(
                            partition_index=partition,
                            error_code=result.error_code,
                            high_watermark=result.high_watermark,
                            last_stable_offset=result.last_stable_offset,
                            log_start_offset=result.log_start_offset,
                            aborted_transactions=None
                            if result.aborted_transactions is None
                            else [
                                fetch.FetchResponseAbortedTransaction(*one)
                                for one in result.aborted_transactions
                            ],
                            records=result.records,
                        )
                    ],
                )
            ],
        ),
        version,
    )
    header = encode_response_header(1, version, correlation_id)
    return (len(header) + len(body)).to_bytes(4, "big") + header + body
