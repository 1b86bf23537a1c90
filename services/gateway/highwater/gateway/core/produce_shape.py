"""Recognises the next Produce request of a connection by the shape of the last one.

A producer's requests differ in correlation id, partitions and records; everything else (client id,
transactional id, acks, timeout, the topic by name or, from version 13 on, by id) repeats. So the bytes
between those are kept and compared, at a tenth of the cost of decoding. A frame that does not match goes
through the generated codec.

A frame for one partition is `match`ed first. From version 9 on, one shape also reads requests for several
partitions of its topic (`match_several`).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Generic, TypeVar

from highwater.hop.append import TransactionalWrite
from highwater.kafka.primitives import uvarint
from highwater.kafka.records.batch import ATTRIBUTES_AT, COMPRESSION_MASK
from highwater.kafka.records.compression import Compression

FLEXIBLE_FROM: Final = 9
ZSTD_FROM: Final = 7
HEADER_AT: Final = 8
"""Where the client id starts, after api key, version and correlation id."""

_unpack_partition_flexible = Struct(">iB").unpack_from
_unpack_partition = Struct(">ii").unpack_from
_TRAILER: Final = b"\0\0\0"
"""No tagged fields in partition, topic and request."""
_ONE: Final = b"\2"
"""The count of one partition, from version 9 on."""
PARTITIONS_MAX: Final = 126
"""Of one request: their count has one byte."""


Topic = TypeVar("Topic")
"""The routes of a topic, which only the Produce path reads."""


class ProduceShape(Generic[Topic]):
    """The repeated bytes, and their meaning."""

    __slots__ = (
        "acks",
        "body_at",
        "front",
        "layout",
        "name",
        "prefix",
        "timeout_ms",
        "topic",
        "transaction",
        "version",
    )

    def __init__(
        self,
        *,
        prefix: bytes,
        version: int,
        acks: int,
        timeout_ms: int,
        topic: Topic,
        name: bytes,
        layout: Struct,
        transaction: TransactionalWrite | None,
    ) -> None:
        self.prefix = prefix
        """Of a request for one partition, up to the partition's index."""
        self.front = prefix[: -len(_ONE)] if version >= FLEXIBLE_FROM else b""
        """Of a request for any number of partitions, up to that number; empty before version 9."""
        self.body_at = HEADER_AT + len(prefix)
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic = topic
        self.name = name
        """The topic's name, or its id, as encoded in replies."""
        self.layout = layout
        """The layout of the replies."""
        self.transaction = transaction
        """That of all its batches; None if the requests have no transactional id."""


def match(shape: ProduceShape[Topic], frame: bytearray) -> tuple[int, int, int] | None:
    """(partition, start, end) of the only batch, or None if the frame has another shape.

    The caller has compared the version.
    """
    if not frame.startswith(shape.prefix, HEADER_AT):
        return None
    at = shape.body_at
    size = len(frame)
    if shape.version < FLEXIBLE_FROM:
        if at + 8 > size:
            return None
        partition, nbytes = _unpack_partition(frame, at)
        at += 8
        if nbytes != size - at or not nbytes or (shape.version < ZSTD_FROM and _zstd(frame, at)):
            return None  # The codec's path answers an empty batch, and zstd before version 7.
        return partition, at, size
    if at + 10 > size:
        return None
    partition, length = _unpack_partition_flexible(frame, at)
    at += 5
    if length & 0x80:
        length &= 0x7F
        shift = 7
        while True:
            if shift > 28 or at >= size:
                return None
            byte = frame[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    end = at + length - 1
    if not at < end == size - 3 or not frame.endswith(_TRAILER):
        return None  # As above for an empty batch; its length may be a varint of several bytes.
    return partition, at, end


def match_several(
    shape: ProduceShape[Topic], frame: bytearray
) -> list[tuple[int, int, int]] | None:
    """(partition, start, end) of each batch, if there are several; None if the frame has another shape.

    The caller has compared the version.
    """
    at = HEADER_AT + len(shape.front)
    end = len(frame) - 2
    if (
        not shape.front
        or at >= end
        or not frame.startswith(shape.front, HEADER_AT)
        or not frame.endswith(b"\0\0")  # No tagged fields in topic and request.
    ):
        return None
    count = frame[at] - 1
    if not 1 < count <= PARTITIONS_MAX:
        return None
    at += 1
    places: list[tuple[int, int, int]] = []
    for _ in range(count):
        if at + 5 > end:
            return None
        partition, length = _unpack_partition_flexible(frame, at)
        at += 5
        if length & 0x80:
            length &= 0x7F
            for shift in (7, 14, 21, 28):
                if at >= end:
                    return None
                byte = frame[at]
                at += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
            else:
                return None
        stop = at + length - 1
        if not at < stop < end or frame[stop]:
            return None  # An empty batch is for the codec's path, and so are tagged fields.
        places.append((partition, at, stop))
        at = stop + 1
    return places if at == end else None


def _zstd(frame: bytearray, start: int) -> bool:
    at = start + ATTRIBUTES_AT + 1
    return at < len(frame) and frame[at] & COMPRESSION_MASK == Compression.ZSTD


def learn(
    frame: bytearray,
    version: int,
    batch_sizes: Sequence[int],
    acks: int,
    timeout_ms: int,
    topic: Topic,
    name: bytes,
    layout: Struct,
    transaction: TransactionalWrite | None = None,
) -> ProduceShape[Topic] | None:
    """The shape of a frame in which the codec found one topic with batches of these sizes.

    None for frames with tagged fields and for several partitions before version 9, which would not match
    again.
    """
    if version < FLEXIBLE_FROM:
        prefix = bytes(frame[HEADER_AT : len(frame) - batch_sizes[0] - 8])
    else:
        partitions_bytes = sum(4 + len(uvarint(nbytes + 1)) + nbytes + 1 for nbytes in batch_sizes)
        count_at = len(frame) - 2 - partitions_bytes - 1
        prefix = bytes(frame[HEADER_AT : max(count_at, HEADER_AT)]) + _ONE
    shape = ProduceShape(
        prefix=prefix,
        version=version,
        acks=acks,
        timeout_ms=timeout_ms,
        topic=topic,
        name=name,
        layout=layout,
        transaction=transaction,
    )
    if len(batch_sizes) > 1:
        found = match_several(shape, frame)
    else:
        one = match(shape, frame)
        found = None if one is None else [one]
    if found is None or [end - start for _, start, end in found] != list(batch_sizes):
        return None
    return shape
