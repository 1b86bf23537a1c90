"""The records of transactions. In `__transaction_state`, of the default instance: Kafka's own keys and
values, byte for byte.

Example, the transactional id "tx" with producer 1000 in epoch 5 and an open transaction in
partition 3 of topic "orders":

    key    0000 0002 7478
           version 0, transactional id (TransactionLogKey.json)
    value  0001 00000000000003e8 0005 0000ea60 01 02 07 6f7264657273 02 00000003 00
           0000018bcfe56802 0000018bcfe56801 02 0008 00000000000003e8 0202 0002
           version 1, producer id, epoch, timeout, status, partitions, last update, start; then the
           tagged fields: previous producer id, client's transaction.version
           (TransactionLogValue.json)

A null value deletes. We write values of version 1, as Kafka does from transaction.version 1 on, and
read both. Tagged fields that we do not know are skipped (KIP-915).

Records of other instances, which share a topic, have keys of a version that Kafka does not use, with the
instance in front. The id above, of instance "team":

    key    4800 0004 7465616d 0002 7478
           version 0x4800 + 0, instance, transactional id

Their values are the same. Topics in them are the instance's, but for `__consumer_offsets`, which stands
for the topic that has the instance's groups.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from highwater.kafka.errors import InvalidLengthError, TruncatedError
from highwater.kafka.message import DECODE_FAILURES
from highwater.kafka.primitives import uvarint
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.records import UnknownRecordError
from highwater.partition.coordinator.struct_reader import StructReader
from highwater.partition.transactions.core.image import (
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionImage,
    TransactionKey,
    TransactionRecord,
)
from highwater.partition.transactions.core.state import EMPTY, STATE_IDS, STATES

KEY_VERSION: Final = 0
INSTANCE_KEY_VERSION: Final = 0x4800
"""Of a key of another instance than the default one."""
VALUE_VERSION: Final = 1
"""The first flexible one."""

_PREVIOUS_PRODUCER_ID: Final = 0
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_VERSION: Final = 2

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_KEY_HEAD = Struct(">hh")
_VALUE_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")
_NULL = uvarint(0)
_NO_TAGGED_FIELDS = uvarint(0)
_EMPTY = uvarint(1)
_KEPT_PARTITIONS_MAX: Final = 16
"""Of a set of partitions whose bytes are kept: its next record mostly has the same ones."""
_KEPT_SETS: Final = 4_096
"""Some hundred bytes each."""
_KEPT_KEYS: Final = 4_096
_KEPT_NAME_MAX: Final = 256
"""Characters of a transactional id whose key is kept; others may have thousands."""
_TIMES_AND_USUAL_TAGS = Struct(">qqBBBqBBh")
"""The times, and two tagged fields: previous producer id, client's transaction.version."""
_USUAL_TAGS_HEAD = (2, 0, 8)
_USUAL_TAGS_SECOND = (2, 2)


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """The key and value of a record."""
    key, value = record
    kept = len(key.transactional_id) <= _KEPT_NAME_MAX
    return _kept_key(key) if kept else _key(key), None if value is None else _value(value)


def _key(of: TransactionKey) -> bytes:
    instance, transactional_id = of
    name = transactional_id.encode()
    if instance == DEFAULT_INSTANCE:
        return _KEY_HEAD.pack(KEY_VERSION, len(name)) + name
    owner = instance.encode()
    head = _KEY_HEAD.pack(INSTANCE_KEY_VERSION, len(owner))
    return head + owner + _INT16.pack(len(name)) + name


_kept_key = lru_cache(_KEPT_KEYS)(_key)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """The record of a key and value; UnknownRecordError for versions that we do not know.

    Raises another DecodeError if the bytes do not match their version.
    """
    if key is None:
        raise UnknownRecordError("record without a key")
    try:
        reader = StructReader(key)
        version = reader.int16()
        if version not in (KEY_VERSION, INSTANCE_KEY_VERSION):
            raise UnknownRecordError(f"key version {version}")
        shared = version == INSTANCE_KEY_VERSION
        instance = InstanceId(reader.string()) if shared else DEFAULT_INSTANCE
        name = TransactionKey(instance, reader.string())
        return TransactionRecord(name, None if value is None else _read_value(StructReader(value)))
    except DECODE_FAILURES as error:
        raise TruncatedError(f"transaction record ends early: {error}") from error


def _value(image: TransactionImage) -> bytes:
    # Every transaction writes three of these.
    head = _VALUE_HEAD.pack(
        VALUE_VERSION,
        image.producer_id,
        image.producer_epoch,
        image.timeout_ms,
        STATE_IDS[image.state],
    )
    partitions = image.partitions
    if image.state is EMPTY:
        topics = _NULL
    elif not partitions:
        topics = _EMPTY
    elif len(partitions) <= _KEPT_PARTITIONS_MAX:
        topics = _kept_topics(partitions)
    else:
        topics = _topics(partitions)
    previous, version = image.previous_producer_id, image.client_version
    if version and previous != NO_PRODUCER_ID and image.next_producer_id == NO_PRODUCER_ID:
        return (
            head
            + topics
            + _TIMES_AND_USUAL_TAGS.pack(
                image.update_ms,
                image.start_ms,
                *_USUAL_TAGS_HEAD,
                previous,
                *_USUAL_TAGS_SECOND,
                version,
            )
        )
    return head + topics + _TIMES.pack(image.update_ms, image.start_ms) + _tags(image)


def _topics(of: frozenset[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(of):
        topics.setdefault(topic, []).append(partition)
    parts = [uvarint(len(topics) + 1)]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += (uvarint(len(name) + 1), name, uvarint(len(partitions) + 1))
        parts += (_INT32.pack(partition) for partition in partitions)
        parts.append(_NO_TAGGED_FIELDS)
    return b"".join(parts)


_kept_topics = lru_cache(_KEPT_SETS)(_topics)


def _tags(image: TransactionImage) -> bytes:
    """The tagged fields that are not at their defaults, in the order of their tags."""
    tags = []
    if image.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_PRODUCER_ID, _INT64.pack(image.previous_producer_id)))
    if image.next_producer_id != NO_PRODUCER_ID:
        tags.append((_NEXT_PRODUCER_ID, _INT64.pack(image.next_producer_id)))
    if image.client_version:
        tags.append((_CLIENT_VERSION, _INT16.pack(image.client_version)))
    parts = [uvarint(len(tags))]
    for tag, data in tags:
        parts += (uvarint(tag), uvarint(len(data)), data)
    return b"".join(parts)


def _read_value(reader: StructReader) -> TransactionImage:
    reader.value_version(VALUE_VERSION, flexible_from=VALUE_VERSION)
    producer_id = reader.int64()
    epoch = reader.int16()
    timeout_ms = reader.int32()
    number = reader.int8()
    state = STATES.get(number)
    if state is None:
        raise InvalidLengthError(f"transaction status {number}")
    partitions = _read_partitions(reader)
    update_ms = reader.int64()
    start_ms = reader.int64()
    tags = reader.tags()
    return TransactionImage(
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_producer_id=_tagged(tags, _PREVIOUS_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        next_producer_id=_tagged(tags, _NEXT_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        timeout_ms=timeout_ms,
        state=state,
        # As Kafka's reader: whatever an empty transaction says of partitions does not count.
        partitions=frozenset() if state is EMPTY else partitions,
        start_ms=start_ms,
        update_ms=update_ms,
        client_version=_tagged(tags, _CLIENT_VERSION, _INT16, 0),
    )


def _read_partitions(reader: StructReader) -> frozenset[TopicPartition]:
    """The partitions of all topics; a null array has none."""
    found = []
    for _ in range(reader.nullable_count()):
        topic = reader.string()
        found += [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
        reader.end_of_struct()
    return frozenset(found)


def _tagged(tags: dict[int, bytes], tag: int, layout: Struct, default: int) -> int:
    data = tags.get(tag)
    if data is None:
        return default
    (value,) = layout.unpack(data)
    return int(value)
