"""Encodes and decodes ReplicateRequest and ReplicateResponse; used on both ends.

Rows are packed, as in the hop's fetch codec: one message may have thousands of partitions.
partition_service.proto explains the columns.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.framing import PLACEHOLDER, HopFramingError, Parts, frame, split
from highwater.model.ids import TopicId
from highwater.partition.replication.rows import NONE, Answered, Asked, SegmentPlace
from highwater.rpc.ports import Message

_ASKED: Final = Struct("<Iiiqi")
_NAMED: Final = Struct("<Ii")
_LOG_START: Final = Struct("<q")
_ANSWERED: Final = Struct("<IiiqihqqqiqI")
_REFERENCE: Final = Struct("<IIQi")

_TOPIC_ID_BYTES: Final = 16
_MALFORMED: Final = (DecodeError, IndexError, ValueError, struct.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRequest:
    """One ReplicateRequest. Sizes in bytes, times in milliseconds."""

    request_id: int
    """1, 2 and so on, on each stream."""
    node_id: int
    node_epoch: int
    asked: Sequence[Asked] = ()
    """Partitions that are new in the session or have a new place; the last row of one counts."""
    forgotten: Sequence[tuple[TopicId, int]] = ()
    """Partitions to remove from the session, before the asked ones are added."""
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    accepts_references: bool = False
    """Whether the leader may answer with places in its files instead of bytes."""
    bytes_only: Sequence[tuple[TopicId, int]] = ()
    """Asked partitions for which it must answer with bytes."""


def encode_request(request: FollowerRequest) -> bytes:
    """Encodes one message."""
    topics: dict[TopicId, int] = {}
    asked = [
        _ASKED.pack(topics.setdefault(topic_id, len(topics)), partition, epoch, offset, last_epoch)
        for topic_id, partition, epoch, offset, last_epoch, _ in request.asked
    ]
    starts = [one.kept_log_start for one in request.asked]
    forgotten = _named(request.forgotten, topics)
    bytes_only = _named(request.bytes_only, topics)
    return pb.ReplicateRequest(
        request_id=request.request_id,
        node_id=request.node_id,
        node_epoch=request.node_epoch,
        topic_ids=topics,
        partitions=b"".join(asked),
        forgotten=forgotten,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        partition_max_bytes=request.partition_max_bytes,
        accepts_references=request.accepts_references,
        bytes_only=bytes_only,
        log_starts=struct.pack(f"<{len(starts)}q", *starts) if any(starts) else b"",
    ).SerializeToString()


def _named(keys: Iterable[tuple[TopicId, int]], topics: dict[TopicId, int]) -> bytes:
    return b"".join([_NAMED.pack(topics.setdefault(t, len(topics)), n) for t, n in keys])


def decode_request(message: Message) -> FollowerRequest:
    """The leader's side of `encode_request`. Raises HopFramingError."""
    try:
        found = pb.ReplicateRequest.FromString(message)  # type: ignore[arg-type]  # Any buffer.
        topics = _topics(found.topic_ids)
        return FollowerRequest(
            request_id=found.request_id,
            node_id=found.node_id,
            node_epoch=found.node_epoch,
            asked=[
                Asked(topics[topic], partition, epoch, offset, last_epoch, log_start)
                for (topic, partition, epoch, offset, last_epoch), log_start in zip(
                    _ASKED.iter_unpack(found.partitions), _log_starts(found), strict=True
                )
            ],
            forgotten=[(topics[t], n) for t, n in _NAMED.iter_unpack(found.forgotten)],
            max_wait_ms=found.max_wait_ms,
            max_bytes=found.max_bytes,
            partition_max_bytes=found.partition_max_bytes,
            accepts_references=found.accepts_references,
            bytes_only=[(topics[t], n) for t, n in _NAMED.iter_unpack(found.bytes_only)],
        )
    except _MALFORMED as error:
        raise HopFramingError(f"malformed ReplicateRequest: {error}") from error


def _log_starts(found: pb.ReplicateRequest) -> Iterable[int]:
    if found.log_starts:
        return [start for (start,) in _LOG_START.iter_unpack(found.log_starts)]
    return repeat(0, len(found.partitions) // _ASKED.size)


def encode_response(request_id: int, answered: Iterable[Answered]) -> Parts:
    """Encodes one message, which refers to the records if they are long."""
    topics: dict[TopicId, int] = {}
    rows: list[bytes] = []
    payload: list[bytes | memoryview] = []
    places = _Places()
    nbytes = 0
    for topic_id, *columns, records in answered:
        size = len(records)
        if isinstance(records, SegmentPlace):
            places.add(len(rows), records)
        elif size:
            payload.append(records)
            nbytes += size
        rows.append(_ANSWERED.pack(topics.setdefault(topic_id, len(topics)), *columns, size))
    header = pb.ReplicateResponse(
        header_bytes=PLACEHOLDER,
        request_id=request_id,
        topic_ids=topics,
        partitions=b"".join(rows),
        references=b"".join(places.rows),
        files=places.files,
    )
    return frame(header.SerializeToString(), payload, nbytes)


class _Places:
    """The file references of a message, and the files that they name."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.files: list[pb.SegmentFile] = []
        self._known: dict[tuple[int, int], int] = {}

    def add(self, row: int, place: SegmentPlace) -> None:
        key = (place.log_dir, place.inode)
        file = self._known.setdefault(key, len(self.files))
        if file == len(self.files):
            self.files.append(
                pb.SegmentFile(path=place.path, log_dir=place.log_dir, inode=place.inode)
            )
        self.rows.append(_REFERENCE.pack(row, file, place.position, place.last_epoch))


def decode_response(message: Message) -> tuple[int, list[Answered]]:
    """(request id, rows); the rows' records are views of the message, or places.

    Raises HopFramingError.
    """
    head, payload = split(message)
    try:
        header = pb.ReplicateResponse.FromString(head)  # type: ignore[arg-type]  # Any buffer.
        references = {
            row: (header.files[file], position, last_epoch)
            for row, file, position, last_epoch in _REFERENCE.iter_unpack(header.references)
        }
        topics = _topics(header.topic_ids)
        rows = list(_answered(topics, header.partitions, payload, references))
    except _MALFORMED as error:
        raise HopFramingError(f"malformed ReplicateResponse: {error}") from error
    return header.request_id, rows


def _answered(
    topics: list[TopicId],
    rows: bytes,
    payload: memoryview,
    references: dict[int, tuple[pb.SegmentFile, int, int]],
) -> Iterator[Answered]:
    position = 0
    for number, (topic, *columns, size) in enumerate(_ANSWERED.iter_unpack(rows)):
        records: memoryview | SegmentPlace
        if references and number in references:
            file, first, last_epoch = references.pop(number)
            records = SegmentPlace(file.path, file.log_dir, file.inode, first, size, last_epoch)
        else:
            records = payload[position : position + size]
            position += size
        row = Answered._make((topics[topic], *columns, records))
        if size and (row.error_code or row.diverging_epoch != NONE):
            raise ValueError(f"{size} bytes of records beside an error or a divergence")
        yield row
    if position != len(payload) or references:
        raise ValueError(
            f"rows with {position} bytes of records, {len(payload)} came, and references to no row"
        )


def _topics(sent: Iterable[bytes]) -> list[TopicId]:
    topics = [TopicId(topic_id) for topic_id in sent]
    for topic_id in topics:
        if len(topic_id) != _TOPIC_ID_BYTES:
            raise ValueError(f"a topic id of {len(topic_id)} bytes")
    return topics
