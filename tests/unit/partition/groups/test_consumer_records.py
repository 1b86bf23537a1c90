"""Expected bytes, written by hand from Kafka's message schemas; Kafka's DumpLogSegments reads them."""

from __future__ import annotations

import pytest

from highwater.kafka.errors import DecodeError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.records import UnknownRecordError
from highwater.partition.groups.consumer.assignment import NOTHING
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
    ClassicMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedRegex,
)
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.records import decode, encode
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.topics import topic_id

GROUP = GroupKey(DEFAULT_INSTANCE, "g")
T = "74" * 16
METADATA = MemberMetadata(
    client_id="c", client_host="/h", topic_names=frozenset("ut"), rebalance_timeout_ms=60_000
)
CLASSIC = MemberMetadata(
    instance_id="i",
    rack_id="r",
    topic_regex="x",
    assignor="range",
    classic=ClassicMember(session_timeout_ms=10, protocols=(("p", b"\x01\x02"),)),
)
CURRENT = CurrentAssignment(
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned=holding(t=(1, 2)),
    revoking=holding(t=(3,)),
    since={(topic_id("t"), 1): 5, (topic_id("t"), 2): 3, (topic_id("t"), 3): 0},
)
GOLDEN: list[tuple[ConsumerRecord, str, str]] = [
    (GroupEpochRecord(GROUP, GroupEpoch(5, 0)), "0003 000167", "0000 00000005 00"),
    (
        GroupEpochRecord(GROUP, GroupEpoch(5, -2)),
        "0003 000167",
        "0000 00000005 01 00 08 fffffffffffffffe",
    ),
    (SubscriptionMetadataRecord(GROUP, b"\x00\x00\x01\x00"), "0004 000167", "00000100"),
    (
        MemberRecord(GROUP, "m", METADATA),
        "0005 000167 00016d",
        "0000 00 00 0263 032f68 03 0274 0275 01 0000ea60 00 00",
    ),
    (
        MemberRecord(GROUP, "m", CLASSIC),
        "0005 000167 00016d",
        (
            "0000 0269 0272 01 01 01 0278 ffffffff 0672616e6765 "
            "01 00 0d 01 0000000a 02 0270 030102 00 00"
        ),
    ),
    (TargetEpochRecord(GROUP, TargetEpoch(6, 0)), "0006 000167", "0000 00000006 00"),
    (
        TargetEpochRecord(GROUP, TargetEpoch(6, 1_700_000_000_000)),
        "0006 000167",
        "0000 00000006 01 00 08 0000018bcfe56800",
    ),
    (
        TargetRecord(GROUP, "m", holding(t=(3,))),
        "0007 000167 00016d",
        f"0000 02 {T} 02 00000003 00 00",
    ),
    (TargetRecord(GROUP, "m", NOTHING), "0007 000167 00016d", "0000 01 00"),
    (
        CurrentRecord(GROUP, "m", CURRENT),
        "0008 000167 00016d",
        (
            f"0000 00000005 00000004 01 02 {T} 03 00000001 00000002 01 00 09 03 00000005 00000003"
            f" 02 {T} 02 00000003 01 00 05 02 00000000 00"
        ),
    ),
    (
        RegexRecord(GROUP, "x", ResolvedRegex(topics=frozenset("t"), version=7, timestamp_ms=9)),
        "0010 000167 000178",
        "0000 02 0274 0000000000000007 0000000000000009 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_golden_bytes(record: ConsumerRecord, key: str, value: str) -> None:
    encoded = encode(record)
    assert encoded.key.hex() == key.replace(" ", "")
    assert encoded.value is not None
    assert encoded.value.hex() == value.replace(" ", "")
    assert decode(*encoded) == record


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_tombstones(record: ConsumerRecord, key: str, value: str) -> None:
    deleted = record._replace(value=None)
    encoded = encode(deleted)
    assert (encoded.key.hex(), encoded.value) == (key.replace(" ", ""), None)
    assert decode(*encoded) == deleted


def test_other_instances_have_keys_of_their_own() -> None:
    record = TargetEpochRecord(GroupKey(InstanceId("acme"), "g"), TargetEpoch(6, 0))
    assert encode(record).key.hex() == "4806" + "000461636d65" + "000167"
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_every_truncation_is_a_decode_error(record: ConsumerRecord, key: str, value: str) -> None:
    encoded = encode(record)
    if encoded.value is None or isinstance(record, SubscriptionMetadataRecord):
        return
    for end in range(len(encoded.value) - 1):
        with pytest.raises(DecodeError):
            decode(encoded.key, encoded.value[:end])


def test_tags_of_newer_versions_are_skipped() -> None:
    key = bytes.fromhex("0006000167")
    value = bytes.fromhex("0000 00000006 01 01 08 0000000000000001")
    assert decode(key, value) == TargetEpochRecord(GROUP, TargetEpoch(6, 0))
    group = bytes.fromhex("0000 00000005 01 01 08 0000000000000001")  # Its creation time.
    assert decode(bytes.fromhex("0003000167"), group) == GroupEpochRecord(GROUP, GroupEpoch(5, 0))
    epochs = f"0000 02 {T} 02 00000003 01 00 05 0200000005 00"
    target = decode(bytes.fromhex("000700016700016d"), bytes.fromhex(epochs))
    assert target == TargetRecord(GROUP, "m", holding(t=(3,)))


def test_values_of_other_versions_and_states_of_a_newer_kafka() -> None:
    with pytest.raises(UnknownRecordError):
        decode(bytes.fromhex("0006000167"), bytes.fromhex("0001 00000006 00"))
    unknown = bytes.fromhex("0000 00000005 00000004 09 01 01 00")
    record = decode(bytes.fromhex("000800016700016d"), unknown)
    assert isinstance(record, CurrentRecord)
    assert record.value is not None
    assert record.value.state is MemberState.UNKNOWN


@pytest.mark.parametrize(
    ("epoch", "tag", "since"),
    [
        ("00000005", "00", {1: 5, 2: 5}),  # Before Kafka 4.3.
        ("fffffffe", "00", {1: 0, 2: 0}),  # The same, of a static member that is gone.
        ("00000005", "01 00 05 02 00000003", {1: 5, 2: 5}),  # Not one for each partition.
        ("00000005", "01 00 09 03 00000003 00000004", {2: 3, 1: 4}),  # In the partitions' order.
    ],
)
def test_epochs_of_partitions(epoch: str, tag: str, since: dict[int, int]) -> None:
    value = bytes.fromhex(f"0000 {epoch} 00000004 00 02 {T} 03 00000002 00000001 {tag} 01 00")
    record = decode(bytes.fromhex("000800016700016d"), value)
    assert isinstance(record, CurrentRecord)
    assert record.value is not None
    assert record.value.assigned == holding(t=(1, 2))
    assert record.value.since == {(topic_id("t"), p): e for p, e in since.items()}


def test_a_null_expression_is_none() -> None:
    value = bytes.fromhex("0000 00 00 0263 032f68 01 00 0000ea60 00 00")
    record = decode(bytes.fromhex("000500016700016d"), value)
    assert isinstance(record, MemberRecord)
    assert record.value is not None
    assert record.value.topic_regex == ""
