"""ReplicateRequest and ReplicateResponse between values and bytes; used on both ends.

Packed rows, as in the hop's fetch codec: thousands of partitions may be in one message. What the
columns are is said in partition_service.proto.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.framing import PLACEHOLDER, HopFramingError, frame, split
from highwater.model.ids import TopicId
from highwater.partition.replication.rows import NONE, Answered, Asked

_ASKED: Final = Struct("<Iiiqi")
_FORGOTTEN: Final = Struct("<Ii")
_ANSWERED: Final = Struct("<IiiqihqqqiqI")

_TOPIC_ID_BYTES: Final = 16
_MALFORMED: Final = (DecodeError, IndexError, ValueError, struct.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRequest:
    """One ReplicateRequest. Sizes in bytes, times in milliseconds."""

    request_id: int
    """1, then 2, and so on, on each stream."""
    node_id: int
    node_epoch: int
    asked: Sequence[Asked] = ()
    """Partitions that are new in the session or have another place; the last of one counts."""
    forgotten: Sequence[tuple[TopicId, int]] = ()
    """Partitions that leave the session, before the asked ones enter it."""
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int


def encode_request(request: FollowerRequest) -> bytes:
    """One message."""
    topics: dict[TopicId, int] = {}
    asked = [
        _ASKED.pack(topics.setdefault(topic_id, len(topics)), *place)
        for topic_id, *place in request.asked
    ]
    forgotten = [
        _FORGOTTEN.pack(topics.setdefault(topic_id, len(topics)), partition)
        for topic_id, partition in request.forgotten
    ]
    return pb.ReplicateRequest(
        request_id=request.request_id,
        node_id=request.node_id,
        node_epoch=request.node_epoch,
        topic_ids=topics,
        partitions=b"".join(asked),
        forgotten=b"".join(forgotten),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        partition_max_bytes=request.partition_max_bytes,
    ).SerializeToString()


def decode_request(message: bytes) -> FollowerRequest:
    """The leader's side of `encode_request`. Raises HopFramingError."""
    try:
        found = pb.ReplicateRequest.FromString(message)
        topics = _topics(found.topic_ids)
        return FollowerRequest(
            request_id=found.request_id,
            node_id=found.node_id,
            node_epoch=found.node_epoch,
            asked=[
                Asked(topics[topic], *place)
                for topic, *place in _ASKED.iter_unpack(found.partitions)
            ],
            forgotten=[
                (topics[topic], partition)
                for topic, partition in _FORGOTTEN.iter_unpack(found.forgotten)
            ],
            max_wait_ms=found.max_wait_ms,
            max_bytes=found.max_bytes,
            partition_max_bytes=found.partition_max_bytes,
        )
    except _MALFORMED as error:
        raise HopFramingError(f"malformed ReplicateRequest: {error}") from error


def encode_response(request_id: int, answered: Iterable[Answered]) -> bytes:
    """One message; copies the records once, into it."""
    topics: dict[TopicId, int] = {}
    rows: list[bytes] = []
    payload: list[Any] = []
    nbytes = 0
    for topic_id, *columns, records in answered:
        size = len(records)
        rows.append(_ANSWERED.pack(topics.setdefault(topic_id, len(topics)), *columns, size))
        if size:
            payload.append(records)
            nbytes += size
    header = pb.ReplicateResponse(
        header_bytes=PLACEHOLDER,
        request_id=request_id,
        topic_ids=topics,
        partitions=b"".join(rows),
    )
    return frame(header.SerializeToString(), payload, nbytes)


def decode_response(message: bytes) -> tuple[int, list[Answered]]:
    """(request id, rows); their records are views of the message. Raises HopFramingError."""
    head, payload = split(message)
    try:
        header = pb.ReplicateResponse.FromString(head)  # type: ignore[arg-type]  # Any buffer.
        rows = list(_answered(_topics(header.topic_ids), header.partitions, payload))
    except _MALFORMED as error:
        raise HopFramingError(f"malformed ReplicateResponse: {error}") from error
    return header.request_id, rows


def _answered(topics: list[TopicId], rows: bytes, payload: memoryview) -> Iterator[Answered]:
    position = 0
    for topic, *columns, size in _ANSWERED.iter_unpack(rows):
        row = Answered._make((topics[topic], *columns, payload[position : position + size]))
        if size and (row.error_code or row.diverging_epoch != NONE):
            raise ValueError(f"{size} bytes of records beside an error or a divergence")
        yield row
        position += size
    if position != len(payload):
        raise ValueError(f"rows with {position} bytes of records, and {len(payload)} came")


def _topics(sent: Iterable[bytes]) -> list[TopicId]:
    topics = [TopicId(topic_id) for topic_id in sent]
    for topic_id in topics:
        if len(topic_id) != _TOPIC_ID_BYTES:
            raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return topics
