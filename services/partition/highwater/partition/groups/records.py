"""The records of groups. In `__consumer_offsets`, of the default instance: Kafka's own keys and values,
byte for byte.

Example, the offset of group "g" in topic "t", partition 3, and its commit at offset 42:

    key    0001 0001 67 0001 74 00000003
           version 1, group, topic, partition (OffsetCommitKey.json)
    value  0003 000000000000002a ffffffff 0000 0000018bcfe56800
           version 3, offset, leader epoch, metadata, commit timestamp (OffsetCommitValue.json)

A classic group's key is `0002` and the group (GroupMetadataKey.json); its value is GroupMetadataValue v3.
A null value deletes. We write offset values v3 (v1 if the client asked for a retention time, which
only v1 carries) and group values v3, as Kafka 4 does. We read all versions, including the flexible
v4. Tagged fields are skipped (KIP-915). The records of consumer groups are in `consumer_records`.

Records of other instances, which share a topic, have keys of versions that Kafka does not use, 0x4800 more
than the same key in Kafka, and the instance in front. The rest is the same. The offset above, of
instance "team":

    key    4801 0004 7465616d 0001 67 0001 74 00000003
           version 0x4800 + 1, instance, group, topic, partition
"""

from struct import Struct
from typing import Final

from highwater.kafka.errors import InvalidValueError, TruncatedError
from highwater.kafka.message import DECODE_FAILURES
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.coordinator.records import EncodedRecord, UnknownRecordError
from highwater.partition.coordinator.struct_reader import StructReader
from highwater.partition.groups import consumer_records
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    GroupImage,
    GroupRecord,
    MemberImage,
    OffsetRecord,
    PendingOffset,
    Record,
    TransactionEnd,
)
from highwater.partition.groups.core.values import GroupKey

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2
INSTANCE_KEY_VERSIONS: Final = 0x4800
"""Added to the version of a key of another instance than the default one."""

_VALUE_VERSION: Final = 3
_EXPIRING_VALUE_VERSION: Final = 1
_FLEXIBLE_FROM: Final = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET_HEAD = Struct(">hqi")


def encode(record: Record) -> EncodedRecord:
    """The key and value of a record that is not a marker."""
    assert not isinstance(record, TransactionEnd), "a control batch has no such record"
    if isinstance(record, PendingOffset):
        record = record.offset
    if isinstance(record, OffsetRecord):
        head = _key_head(record.key, 1)
        key = head + _string(record.topic) + _INT32.pack(record.partition)
        return EncodedRecord(key, None if record.value is None else _offset_value(record.value))
    if isinstance(record, GroupRecord):
        key = _key_head(record.key, GROUP_KEY_VERSION)
        return EncodedRecord(key, None if record.value is None else _group_value(record.value))
    version, rest, value = consumer_records.encode(record)
    return EncodedRecord(_key_head(record.key, version) + rest, value)


def decode(key: bytes | None, value: bytes | None) -> Record:
    """The record of a key and value; UnknownRecordError for versions that we do not know.

    Raises another DecodeError if the bytes do not match their version.
    """
    if key is None:
        raise UnknownRecordError("record without a key")
    try:
        return _decode(StructReader(key), value)
    except DECODE_FAILURES as error:
        raise TruncatedError(f"group record ends early: {error}") from error


def pending(record: Record, producer: Producer) -> Record:
    """A record that was read from a batch of a transaction. Raises DecodeError.

    Only offsets are committed in transactions.
    """
    if not isinstance(record, OffsetRecord) or record.value is None:
        raise InvalidValueError("a record in a transaction that commits no offset")
    return PendingOffset(producer, record)


def batch_of(record: Record) -> Producer | TransactionMarker | None:
    """See `TransactionalRecords`."""
    if isinstance(record, PendingOffset):
        return record.producer
    return record.marker if isinstance(record, TransactionEnd) else None


def _decode(key: StructReader, value: bytes | None) -> Record:
    version = key.int16()
    kind = version - INSTANCE_KEY_VERSIONS if version > INSTANCE_KEY_VERSIONS else version
    is_consumer = kind in consumer_records.KEY_VERSIONS
    if kind not in OFFSET_KEY_VERSIONS and kind != GROUP_KEY_VERSION and not is_consumer:
        raise UnknownRecordError(f"key version {version}")
    instance = DEFAULT_INSTANCE if kind == version else InstanceId(key.string())
    group = GroupKey(instance, key.string())
    if is_consumer:
        return consumer_records.decode(kind, group, key, value)
    if kind == GROUP_KEY_VERSION:
        return GroupRecord(group, None if value is None else _read_group(StructReader(value)))
    topic = key.string()
    partition = key.int32()
    return OffsetRecord(
        group, topic, partition, None if value is None else _read_offset(StructReader(value))
    )


def _key_head(key: GroupKey, version: int) -> bytes:
    group = _string(key.group_id)
    if key.instance == DEFAULT_INSTANCE:
        return _INT16.pack(version) + group
    return _INT16.pack(INSTANCE_KEY_VERSIONS + version) + _string(key.instance) + group


def _offset_value(value: CommittedOffset) -> bytes:
    if value.expire_ms >= 0:
        return (
            _INT16.pack(_EXPIRING_VALUE_VERSION)
            + _INT64.pack(value.offset)
            + _string(value.metadata)
            + _INT64.pack(value.commit_ms)
            + _INT64.pack(value.expire_ms)
        )
    return (
        _OFFSET_HEAD.pack(_VALUE_VERSION, value.offset, value.leader_epoch)
        + _string(value.metadata)
        + _INT64.pack(value.commit_ms)
    )


def _read_offset(reader: StructReader) -> CommittedOffset:
    version = reader.value_version(_FLEXIBLE_FROM, flexible_from=_FLEXIBLE_FROM)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    reader.end_of_struct()
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms)


def _group_value(image: GroupImage) -> bytes:
    parts = [
        _INT16.pack(_VALUE_VERSION),
        _string(image.protocol_type),
        _INT32.pack(image.generation),
        _nullable_string(image.protocol),
        _nullable_string(image.leader),
        _INT64.pack(image.state_since_ms),
        _INT32.pack(len(image.members)),
    ]
    for member in image.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def _read_group(reader: StructReader) -> GroupImage:
    version = reader.value_version(_FLEXIBLE_FROM, flexible_from=_FLEXIBLE_FROM)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_since_ms = reader.int64() if version >= 2 else -1
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    reader.end_of_struct()
    return GroupImage(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_since_ms=state_since_ms,
        members=members,
    )


def _read_member(reader: StructReader, version: int) -> MemberImage:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription = reader.octets()
    assignment = reader.octets()
    reader.end_of_struct()
    return MemberImage(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)
