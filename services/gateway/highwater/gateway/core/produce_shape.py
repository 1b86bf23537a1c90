"""Recognises the next Produce request of a connection by the shape of the last one.

A producer's requests differ in correlation id, partition and records; everything else (client id,
transactional id, acks, timeout, the topic by name or, from version 13 on, by id) repeats. So the bytes
between those are kept and compared, at a tenth of the cost of decoding. A frame that does not match goes
through the generated codec.
"""

from struct import Struct
from typing import Final, Generic, TypeVar

from highwater.hop.append import TransactionalWrite
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


Topic = TypeVar("Topic")
"""The routes of a topic, which only the Produce path reads."""


class ProduceShape(Generic[Topic]):
    """The repeated bytes, and their meaning."""

    __slots__ = (
        "acks",
        "body_at",
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


def _zstd(frame: bytearray, start: int) -> bool:
    at = start + ATTRIBUTES_AT + 1
    return at < len(frame) and frame[at] & COMPRESSION_MASK == Compression.ZSTD


def learn(
    frame: bytearray,
    version: int,
    batch_bytes: int,
    acks: int,
    timeout_ms: int,
    topic: Topic,
    name: bytes,
    layout: Struct,
    transaction: TransactionalWrite | None = None,
) -> ProduceShape[Topic] | None:
    """The shape of a frame in which the codec found one topic with one partition.

    The prefix ends where the partition index begins. None for frames with tagged fields, which
    would not match again.
    """
    if version < FLEXIBLE_FROM:
        body_at = len(frame) - batch_bytes - 8
    else:
        prefix_bytes = 1
        while (batch_bytes + 1) >> (7 * prefix_bytes):
            prefix_bytes += 1
        body_at = len(frame) - len(_TRAILER) - batch_bytes - prefix_bytes - 4
    if body_at <= HEADER_AT:
        return None
    shape = ProduceShape(
        prefix=bytes(frame[HEADER_AT:body_at]),
        version=version,
        acks=acks,
        timeout_ms=timeout_ms,
        topic=topic,
        name=name,
        layout=layout,
        transaction=transaction,
    )
    found = match(shape, frame)
    return shape if found is not None and found[2] - found[1] == batch_bytes else None
