"""Expected bytes, written by hand from Kafka's message schemas."""

import pytest

from highwater.kafka.errors import DecodeError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.records import UnknownRecordError
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    GroupImage,
    GroupRecord,
    MemberImage,
    OffsetRecord,
)
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.records import decode, encode

GROUP = GroupKey(DEFAULT_INSTANCE, "g")
TENANT = GroupKey(InstanceId("acme"), "g")


def golden(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", ""))


OFFSET_KEY = golden("0001 | 0001 67 | 0001 74 | 00000003")
GROUP_KEY = golden("0002 | 0001 67")
IMAGE = GroupImage(
    protocol_type="consumer",
    generation=5,
    protocol="range",
    leader="m1",
    state_since_ms=0x18BCFE56800,
    members=(
        MemberImage(
            member_id="m1",
            instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            subscription=b"\x01\x02",
            assignment=b"\x03",
        ),
        MemberImage(
            member_id="m2",
            instance_id="s",
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            subscription=b"",
            assignment=b"",
        ),
    ),
)
GROUP_VALUE_3 = golden(
    "0003 | 0008 636f6e73756d6572 | 00000005 | 0005 72616e6765 | 0002 6d31 | 0000018bcfe56800"
    "| 00000002"
    "| 0002 6d31 | ffff | 0001 63 | 0002 2f68 | 0000ea60 | 00002710 | 00000002 0102 | 00000001 03"
    "| 0002 6d32 | 0001 73 | 0001 63 | 0002 2f68 | 0000ea60 | 00002710 | 00000000 | 00000000"
)
GROUP_VALUE_4 = golden(
    "0004 | 09 636f6e73756d6572 | 00000005 | 06 72616e6765 | 03 6d31 | 0000018bcfe56800"
    "| 03"
    "| 03 6d31 | 00 | 02 63 | 03 2f68 | 0000ea60 | 00002710 | 03 0102 | 02 03 | 00"
    "| 03 6d32 | 02 73 | 02 63 | 03 2f68 | 0000ea60 | 00002710 | 01 | 01 | 00"
    "| 01 05 02 abcd"  # One tagged field of a newer version, to be skipped.
)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (
            CommittedOffset(42, -1, "", 0x18BCFE56800),
            "0003 | 000000000000002a | ffffffff | 0000 | 0000018bcfe56800",
        ),
        (
            CommittedOffset(42, 7, "é", 1),
            "0003 | 000000000000002a | 00000007 | 0002 c3a9 | 0000000000000001",
        ),
        (
            CommittedOffset(42, -1, "x", 1, 9),
            "0001 | 000000000000002a | 0001 78 | 0000000000000001 | 0000000000000009",
        ),
        (None, None),
    ],
)
def test_offsets_are_written_as_kafka_writes_them(value, data):
    record = OffsetRecord(GROUP, "t", 3, value)
    expected = (OFFSET_KEY, None if data is None else golden(data))
    assert encode(record) == expected
    assert decode(*expected) == record


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0000 | 000000000000002a | 0001 78 | 0000000000000001", CommittedOffset(42, -1, "x", 1)),
        ("0002 | 000000000000002a | 0001 78 | 0000000000000001", CommittedOffset(42, -1, "x", 1)),
        (
            "0004 | 000000000000002a | 00000007 | 02 78 | 0000000000000001 | 00",
            CommittedOffset(42, 7, "x", 1),
        ),
        (
            "0004 | 000000000000002a | 00000007 | 02 78 | 0000000000000001 | 01 00 01 ff",
            CommittedOffset(42, 7, "x", 1),
        ),
    ],
)
def test_offsets_of_other_versions_are_read(data, expected):
    assert decode(OFFSET_KEY, golden(data)) == OffsetRecord(GROUP, "t", 3, expected)
    old_key = b"\0\0" + OFFSET_KEY[2:]
    assert decode(old_key, golden(data)) == OffsetRecord(GROUP, "t", 3, expected)


def test_groups_are_written_as_kafka_writes_them():
    record = GroupRecord(GROUP, IMAGE)
    assert encode(record) == (GROUP_KEY, GROUP_VALUE_3)
    assert decode(GROUP_KEY, GROUP_VALUE_3) == record
    assert encode(GroupRecord(GROUP, None)) == (GROUP_KEY, None)
    assert decode(GROUP_KEY, None) == GroupRecord(GROUP, None)


def test_flexible_group_value_with_unknown_tags():
    assert decode(GROUP_KEY, GROUP_VALUE_4) == GroupRecord(GROUP, IMAGE)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_groups_of_old_versions(version):
    data = golden(f"000{version} | 0008 636f6e73756d6572 | 00000005 | ffff | ffff")
    if version >= 2:
        data += golden("0000000000000009")
    data += golden("00000001 | 0002 6d31 | 0001 63 | 0002 2f68")
    if version >= 1:
        data += golden("0000ea60")
    data += golden("00002710 | 00000000 | 00000000")
    image = decode(GROUP_KEY, data).value
    assert image.members[0].rebalance_timeout_ms == (60_000 if version else 10_000)
    assert image.members[0].instance_id is None
    assert (image.protocol, image.leader) == (None, None)
    assert image.state_since_ms == (9 if version >= 2 else -1)


def test_instances_have_their_own_keys():
    offset = OffsetRecord(TENANT, "t", 3, CommittedOffset(1, -1, "", 1))
    group = GroupRecord(TENANT, IMAGE)
    assert encode(offset).key == golden("4801 | 0004 61636d65 | 0001 67 | 0001 74 | 00000003")
    assert encode(group).key == golden("4802 | 0004 61636d65 | 0001 67")
    assert decode(*encode(offset)) == offset
    assert decode(*encode(group)) == group


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (golden("0011 | 0001 67"), None),  # StreamsGroupMetadataKey (KIP-1071).
        (OFFSET_KEY, golden("0005 | 00")),
        (GROUP_KEY, golden("ffff | 00")),
    ],
)
def test_unknown_versions(key, value):
    with pytest.raises(UnknownRecordError):
        decode(key, value)


@pytest.mark.parametrize(("key", "value"), [(GROUP_KEY, GROUP_VALUE_3), (GROUP_KEY, GROUP_VALUE_4)])
def test_every_truncation_is_a_decode_error(key, value):
    for length in range(len(value)):
        with pytest.raises(DecodeError):
            decode(key, value[:length])
    for length in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:length], value)


@pytest.mark.parametrize(
    "data",
    [
        "0003 | ffff",  # The protocol type cannot be null.
        "0003 | 0000 | 00000005 | ffff | ffff | 0000000000000009 | 7fffffff",
        "0003 | 0000 | 00000005 | ffff | ffff | 0000000000000009 | ffffffff",
        "0003 | 0001 ff",
    ],
)
def test_nonsense_is_a_decode_error(data):
    with pytest.raises(DecodeError):
        decode(GROUP_KEY, golden(data))
