"""The records of consumer groups: Kafka's values, and what follows the group in its keys, byte for byte.

Example, member "m" of group "g", which is to hold partition 3 of one topic:

    key    0007 0001 67 0001 6d
           version 7, group, member (ConsumerGroupTargetAssignmentMemberKey.json)
    value  0000 02 <16 bytes of the topic id> 02 00000003 00 00
           version 0, one topic, its id, one partition, no tagged fields

| key version | of | value |
|---|---|---|
| 3 | group | epoch; tag 0: hash of the subscribed topics (KIP-1101) |
| 4 | group | topics, which Kafka wrote before 4.1; kept as bytes |
| 5 | group, member | metadata; tag 0: what a member of the classic protocol sent |
| 6 | group | epoch of the target assignment; tag 0: when it was made (KIP-1263) |
| 7 | group, member | target assignment |
| 8 | group, member | current assignment; tag 0 of each topic: epochs of its partitions (KIP-1251) |
| 16 | group, regular expression | its topics |

Kafka: group-coordinator/src/main/resources/common/message. All values are flexible, version 0;
tagged fields that are not in the table are skipped (KIP-915).
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar

from highwater.kafka.primitives import uvarint
from highwater.model.ids import TopicId
from highwater.partition.coordinator.struct_reader import StructReader
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.durable import (
    ConsumerRecord,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    MemberRecord,
    RegexRecord,
    SubscriptionMetadataRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.member import (
    JOIN_EPOCH,
    ClassicMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedRegex,
)
from highwater.partition.groups.key import GroupKey

_V = TypeVar("_V")

_GROUP: Final = 3
_SUBSCRIPTION: Final = 4
_MEMBER: Final = 5
_TARGET_EPOCH: Final = 6
_TARGET: Final = 7
_CURRENT: Final = 8
_REGEX: Final = 16
KEY_VERSIONS: Final = frozenset(
    {_GROUP, _SUBSCRIPTION, _MEMBER, _TARGET_EPOCH, _TARGET, _CURRENT, _REGEX}
)

_VALUE_VERSION: Final = b"\x00\x00"
_TOPIC_ID_BYTES: Final = 16
_PRESENT: Final = b"\x01"
"""Before a nullable struct."""
_NO_TAGS: Final = b"\x00"
_ONE_TAG: Final = b"\x01\x00"
"""The count, and the tag 0."""

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def encode(record: ConsumerRecord) -> tuple[int, bytes, bytes | None]:
    """(key version, the key behind the group, value)."""
    match record:
        case GroupEpochRecord():
            value = None if record.value is None else _epoch_value(*record.value)
            return _GROUP, b"", value
        case SubscriptionMetadataRecord():
            return _SUBSCRIPTION, b"", record.value
        case MemberRecord():
            value = None if record.value is None else _member_value(record.value)
            return _MEMBER, _key_string(record.member_id), value
        case TargetEpochRecord():
            value = None if record.value is None else _epoch_value(*record.value)
            return _TARGET_EPOCH, b"", value
        case TargetRecord():
            value = None
            if record.value is not None:
                value = _VALUE_VERSION + _assignment(record.value) + _NO_TAGS
            return _TARGET, _key_string(record.member_id), value
        case CurrentRecord():
            value = None if record.value is None else _current_value(record.value)
            return _CURRENT, _key_string(record.member_id), value
        case RegexRecord():
            value = None if record.value is None else _regex_value(record.value)
            return _REGEX, _key_string(record.regex), value


def decode(version: int, group: GroupKey, key: StructReader, value: bytes | None) -> ConsumerRecord:
    """The record of a key of one of `KEY_VERSIONS`; `key` is behind the group.

    Raises UnknownRecordError, or what reading too short bytes raises.
    """
    match version:
        case 3:
            return GroupEpochRecord(group, _read(value, _read_group))
        case 4:
            return SubscriptionMetadataRecord(group, value)
        case 5:
            return MemberRecord(group, key.string(), _read(value, _read_member))
        case 6:
            return TargetEpochRecord(group, _read(value, _read_target_epoch))
        case 7:
            return TargetRecord(group, key.string(), _read(value, _read_assignment))
        case 8:
            return CurrentRecord(group, key.string(), _read(value, _read_current))
        case _:
            assert version == _REGEX
            return RegexRecord(group, key.string(), _read(value, _read_regex))


# -- values -----------------------------------------------------------------------------------


def _epoch_value(epoch: int, tag: int) -> bytes:
    """Of a group or its target assignment; a tag of 0 is left out."""
    head = _VALUE_VERSION + _INT32.pack(epoch)
    if not tag:
        return head + _NO_TAGS
    return head + _ONE_TAG + uvarint(_INT64.size) + _INT64.pack(tag)


def _read_group(reader: StructReader) -> GroupEpoch:
    epoch = reader.int32()
    return GroupEpoch(epoch, _first_tag(reader, StructReader.int64) or 0)


def _read_target_epoch(reader: StructReader) -> TargetEpoch:
    epoch = reader.int32()
    return TargetEpoch(epoch, _first_tag(reader, StructReader.int64) or 0)


def _member_value(value: MemberMetadata) -> bytes:
    parts = [
        _VALUE_VERSION,
        _nullable_string(value.instance_id),
        _nullable_string(value.rack_id),
        _string(value.client_id),
        _string(value.client_host),
        _strings(value.topic_names),
        _string(value.topic_regex),
        _INT32.pack(value.rebalance_timeout_ms),
        _nullable_string(value.assignor),
    ]
    if value.classic is None:
        parts.append(_NO_TAGS)
    else:
        classic = _PRESENT + _classic(value.classic)
        parts += (_ONE_TAG, uvarint(len(classic)), classic)
    return b"".join(parts)


def _read_member(reader: StructReader) -> MemberMetadata:
    return MemberMetadata(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        topic_names=frozenset(reader.string() for _ in range(reader.count())),
        topic_regex=reader.nullable_string() or "",
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_string(),
        classic=_first_tag(reader, _read_classic),
    )


def _classic(value: ClassicMember) -> bytes:
    parts = [_INT32.pack(value.session_timeout_ms), uvarint(len(value.protocols) + 1)]
    for name, metadata in value.protocols:
        parts += (_string(name), uvarint(len(metadata) + 1), metadata, _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def _read_classic(reader: StructReader) -> ClassicMember | None:
    if reader.int8() != _PRESENT[0]:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.count()):
        protocols.append((reader.string(), reader.octets()))
        reader.end_of_struct()
    reader.end_of_struct()
    return ClassicMember(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def _current_value(value: CurrentAssignment) -> bytes:
    return b"".join(
        (
            _VALUE_VERSION,
            _INT32.pack(value.epoch),
            _INT32.pack(value.previous_epoch),
            _INT8.pack(value.state),
            _held(value, value.assigned),
            _held(value, value.revoking),
            _NO_TAGS,
        )
    )


def _read_current(reader: StructReader) -> CurrentAssignment:
    epoch = reader.int32()
    previous_epoch = reader.int32()
    state = reader.int8()
    known = state in MemberState.__members__.values()
    since: dict[tuple[TopicId, int], int] = {}
    default = max(epoch, JOIN_EPOCH)
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState(state) if known else MemberState.UNKNOWN,
        assigned=_read_held(reader, default, since),
        revoking=_read_held(reader, default, since),
        since=since,
    )


def _held(value: CurrentAssignment, part: MemberAssignment) -> bytes:
    """An assignment with the epoch of each partition in tag 0 of its topic (KIP-1251)."""
    parts = [uvarint(len(part) + 1)]
    for topic_id, partitions in part.items():
        count = len(partitions)
        ints = Struct(f">{count}i")
        length = uvarint(count + 1)
        epochs = ints.pack(*[value.assignment_epoch((topic_id, p)) for p in partitions])
        parts += (topic_id, length, ints.pack(*partitions))
        parts += (_ONE_TAG, uvarint(len(length) + len(epochs)), length, epochs)
    return b"".join(parts)


def _read_held(
    reader: StructReader, default: int, since: dict[tuple[TopicId, int], int]
) -> MemberAssignment:
    """An assignment; adds the epoch of each partition to `since`.

    It is `default` in records from before Kafka 4.3, and if there are not as many epochs as
    partitions (`Utils.assignmentFromTopicPartitions`).
    """
    found = {}
    for _ in range(reader.count()):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        partitions = [reader.int32() for _ in range(reader.count())]
        epochs = _first_tag(reader, _read_epochs)
        if epochs is None or len(epochs) != len(partitions):
            epochs = [default] * len(partitions)
        for partition, epoch in zip(partitions, epochs, strict=True):
            since[topic_id, partition] = epoch
        if partitions:
            found[topic_id] = tuple(sorted(partitions))
    return found


def _read_epochs(reader: StructReader) -> list[int]:
    return [reader.int32() for _ in range(reader.count())]


def _assignment(value: MemberAssignment) -> bytes:
    parts = [uvarint(len(value) + 1)]
    for topic_id, partitions in value.items():
        count = len(partitions)
        parts += (topic_id, uvarint(count + 1), Struct(f">{count}i").pack(*partitions), _NO_TAGS)
    return b"".join(parts)


def _read_assignment(reader: StructReader) -> MemberAssignment:
    found = {}
    for _ in range(reader.count()):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        partitions = tuple(sorted(reader.int32() for _ in range(reader.count())))
        reader.end_of_struct()
        if partitions:
            found[topic_id] = partitions
    return found


def _regex_value(value: ResolvedRegex) -> bytes:
    times = _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
    return _VALUE_VERSION + _strings(value.topics) + times + _NO_TAGS


def _read_regex(reader: StructReader) -> ResolvedRegex:
    topics = frozenset(reader.string() for _ in range(reader.count()))
    return ResolvedRegex(topics=topics, version=reader.int64(), timestamp_ms=reader.int64())


# -- fields -----------------------------------------------------------------------------------


def _key_string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _string(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _nullable_string(text: str | None) -> bytes:
    return b"\x00" if text is None else _string(text)


def _strings(texts: frozenset[str]) -> bytes:
    return uvarint(len(texts) + 1) + b"".join(_string(text) for text in sorted(texts))


def _read(value: bytes | None, read: Callable[[StructReader], _V]) -> _V | None:
    """The value's content; None for a tombstone."""
    if value is None:
        return None
    reader = StructReader(value)
    reader.value_version(0, flexible_from=0)
    return read(reader)


def _first_tag(reader: StructReader, read: Callable[[StructReader], _V]) -> _V | None:
    """The field of tag 0 at the end of the value, or None."""
    data = reader.tags().get(0)
    return None if data is None else read(StructReader(data, flexible=True))
