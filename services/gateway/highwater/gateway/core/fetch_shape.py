"""The fast path for Fetch requests of one partition, as `produce_shape` is for Produce.

A consumer's requests for one partition differ in correlation id, epoch and offset; the rest of
the frame repeats. The reply is packed in one call; the records follow.
Layouts: Kafka's FetchRequest.json and FetchResponse.json, versions 4 to 18. From version 13 on
16 bytes of a topic id stand in place of the topic's name, in requests and replies (KIP-516); the
tagged fields that 15 to 18 add are those of replicas, and otherwise repeat like everything else.

In a fetch session the session epoch differs, too: the shape expects the next one.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Any, Final, Generic, TypeVar

from highwater.gateway.core.empty_fetch import session_epoch_at
from highwater.gateway.core.fetch_limits import FetchLimits
from highwater.gateway.core.fetch_session import CachedPartition
from highwater.hop.fetch import FetchedPartition
from highwater.kafka.messages.fetch import FetchRequestFetchPartition

FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
HEADER_AT: Final = 8
NO_EPOCH: Final = -1

_ENTRY_4: Final = Struct(">iqi")
_ENTRY_5: Final = Struct(">iqqi")
_ENTRY_9: Final = Struct(">iiqqi")
_ENTRY_12: Final = Struct(">iiqiqi")


def _entry_struct(version: int) -> Struct:
    if version >= FLEXIBLE_FROM:
        return _ENTRY_12
    if version >= 9:
        return _ENTRY_9
    return _ENTRY_5 if version >= 5 else _ENTRY_4


Topic = TypeVar("Topic")
"""The routes of a topic, which only the Fetch path reads."""


class FetchShape(Generic[Topic]):
    """The bytes that repeat, and their meaning."""

    __slots__ = (
        "_after_epoch",
        "_before_epoch",
        "at",
        "entry",
        "cached",
        "limits",
        "name",
        "prefix",
        "session_epoch",
        "session_id",
        "size",
        "suffix",
        "topic",
        "version",
    )

    def __init__(
        self, version: int, entry: Struct, frame: bytearray, at: int, topic: Topic
    ) -> None:
        self.version = version
        self.entry = entry
        self.at = at
        self.size = len(frame)
        self.prefix = bytes(frame[HEADER_AT:at])
        self.suffix = bytes(frame[at + entry.size :])
        self.topic = topic
        self.name = b""
        """The topic's name, or its id, as encoded in replies."""
        self.limits = FetchLimits(0, 0, 0, 0)
        self.cached: CachedPartition[Any] | None = None
        """In a session, its only partition."""
        self.session_id = 0
        self.session_epoch = NO_EPOCH
        """That of the frame, or in a session that of the next one."""
        self._before_epoch = self._after_epoch = b""

    def expect(self, frame: bytearray, session_id: int, epoch: int) -> None:
        """From now on frames of the session in this epoch match; `frame` was learned from it."""
        self.session_id = session_id
        at = session_epoch_at(frame, self.version) - HEADER_AT
        self._before_epoch, self._after_epoch = self.prefix[:at], self.prefix[at + 4 :]
        self.expect_epoch(epoch)

    def expect_epoch(self, epoch: int) -> None:
        """From now on frames in this session epoch match."""
        self.session_epoch = epoch
        self.prefix = self._before_epoch + epoch.to_bytes(4, "big") + self._after_epoch


def learn(
    frame: bytearray, version: int, asked: FetchRequestFetchPartition, topic: Topic
) -> FetchShape[Topic] | None:
    """The shape of a frame whose only partition is `asked`; None if its position is not certain."""
    entry = _entry_struct(version)
    fields = {
        _ENTRY_4: (asked.partition, asked.fetch_offset),
        _ENTRY_5: (asked.partition, asked.fetch_offset, asked.log_start_offset),
        _ENTRY_9: (
            asked.partition,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.log_start_offset,
        ),
        _ENTRY_12: (
            asked.partition,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start_offset,
        ),
    }[entry]
    try:
        packed = entry.pack(*fields, asked.partition_max_bytes)
    except error:
        return None
    at = frame.find(packed, HEADER_AT)
    if at < 0 or frame.find(packed, at + 1) >= 0:
        return None
    return FetchShape(version, entry, frame, at, topic)


def match(shape: FetchShape[Topic], frame: bytearray) -> tuple[int, int, int, int, int] | None:
    """(partition, current leader epoch, offset, last fetched epoch, max bytes), or None.

    The caller has compared the version.
    """
    if (
        len(frame) != shape.size
        or not frame.startswith(shape.prefix, HEADER_AT)
        or not frame.endswith(shape.suffix)
    ):
        return None
    fields = shape.entry.unpack_from(frame, shape.at)
    version = shape.version
    if version >= FLEXIBLE_FROM:
        return fields[0], fields[1], fields[2], fields[3], fields[5]
    if version >= 9:
        return fields[0], fields[1], fields[2], NO_EPOCH, fields[4]
    return fields[0], NO_EPOCH, fields[1], NO_EPOCH, fields[-1]


def name_part(version: int, name: bytes, topic_id: bytes) -> bytes:
    """The topic as encoded in the reply: its name with a length prefix, or its id."""
    if version >= TOPIC_IDS_FROM:
        return topic_id
    if version < FLEXIBLE_FROM:
        return len(name).to_bytes(2, "big") + name
    return _uvarint(len(name) + 1) + name


_HEAD_4: Final = Struct(">iiii")
_HEAD_7: Final = Struct(">iiihii")
_HEAD_12: Final = Struct(">iibihib")
_PARTITION_4: Final = Struct(">iihqqii")
_PARTITION_5: Final = Struct(">iihqqqii")
_PARTITION_11: Final = Struct(">iihqqqiii")
_PARTITION_12: Final = Struct(">bihqqqbi")
TAIL_12: Final = b"\0\0\0"
_ABORTED_4: Final = Struct(">qq")
_ABORTED_12: Final = Struct(">qqb")


def pack_reply(
    shape: FetchShape[Topic],
    correlation_id: int,
    partition: int,
    result: FetchedPartition,
    throttle_ms: int,
) -> tuple[bytes, bytes]:
    """(bytes before the records, bytes after them); the size prefix counts the records.

    `result` has no diverging epoch.
    """
    version = shape.version
    nbytes = result.nbytes
    code = result.error_code
    offsets = (result.high_watermark, result.last_stable_offset)
    start = result.log_start_offset
    committed = result.aborted_transactions is not None
    name = shape.name
    if version >= FLEXIBLE_FROM:
        body = _PARTITION_12.pack(2, partition, code, *offsets, start, committed, -1)
        if result.aborted_transactions:
            body = _with_aborted(body, _PARTITION_12.size - 5, result.aborted_transactions, True)
        records = _uvarint(nbytes + 1)
        size = _HEAD_12.size - 4 + len(name) + len(body) + len(records) + nbytes + len(TAIL_12)
        head = _HEAD_12.pack(size, correlation_id, 0, throttle_ms, 0, shape.session_id, 2)
        return head + name + body + records, TAIL_12
    aborted = 0 if committed else -1
    if version >= 11:
        body = _PARTITION_11.pack(1, partition, code, *offsets, start, aborted, -1, nbytes)
        aborted_at = _PARTITION_11.size - 12
    elif version >= 5:
        body = _PARTITION_5.pack(1, partition, code, *offsets, start, aborted, nbytes)
        aborted_at = _PARTITION_5.size - 8
    else:
        body = _PARTITION_4.pack(1, partition, code, *offsets, aborted, nbytes)
        aborted_at = _PARTITION_4.size - 8
    if result.aborted_transactions:
        body = _with_aborted(body, aborted_at, result.aborted_transactions, False)
    if version >= 7:
        size = _HEAD_7.size - 4 + len(name) + len(body) + nbytes
        head = _HEAD_7.pack(size, correlation_id, throttle_ms, 0, shape.session_id, 1)
    else:
        size = _HEAD_4.size - 4 + len(name) + len(body) + nbytes
        head = _HEAD_4.pack(size, correlation_id, throttle_ms, 1)
    return head + name + body, b""


def _with_aborted(
    body: bytes, at: int, aborted: Sequence[tuple[int, int]], flexible: bool
) -> bytes:
    """A partition's fields with these transactions in place of the empty array at `at`.

    Readers of committed records meet some in most fetches of a topic in which any are aborted, and the
    generated codec costs several times the whole rest of such a reply.
    """
    if flexible:
        entries = b"".join([_ABORTED_12.pack(*one, 0) for one in aborted])
        return b"".join((body[:at], _uvarint(len(aborted) + 1), entries, body[at + 1 :]))
    entries = b"".join([_ABORTED_4.pack(*one) for one in aborted])
    return b"".join((body[:at], len(aborted).to_bytes(4, "big"), entries, body[at + 4 :]))


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:  # Most fetches are this small; the loop would cost twice as much.
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
