"""Bytes of __transaction_state, written by Apache Kafka 4.3.1 (TransactionLog.valueToBytes)."""

import pytest

from highwater.kafka.errors import DecodeError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.records import UnknownRecordError
from highwater.partition.transactions.core.image import (
    TopicPartition,
    TransactionImage,
    TransactionKey,
    TransactionRecord,
)
from highwater.partition.transactions.core.state import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
)
from highwater.partition.transactions.records import decode, encode

KEY = bytes.fromhex("0000000574782dc3bc")
NAME = TransactionKey(DEFAULT_INSTANCE, "tx-ü")

EMPTY_IMAGE = TransactionImage(
    producer_id=1000,
    previous_producer_id=1000,
    producer_epoch=0,
    timeout_ms=60_000,
    state=EMPTY,
    update_ms=1_700_000_000_000,
)
ONGOING_IMAGE = TransactionImage(
    producer_id=1000,
    previous_producer_id=1000,
    producer_epoch=5,
    timeout_ms=60_000,
    state=ONGOING,
    partitions=frozenset({TopicPartition("orders", 3)}),
    start_ms=1_700_000_000_001,
    update_ms=1_700_000_000_002,
    client_version=2,
)
PREPARED_IMAGE = TransactionImage(
    producer_id=1000,
    previous_producer_id=999,
    next_producer_id=2000,
    producer_epoch=32_767,
    timeout_ms=60_000,
    state=PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("__consumer_offsets", 7)}),
    start_ms=1_700_000_000_001,
    update_ms=1_700_000_000_003,
    client_version=2,
)
COMPLETE_IMAGE = TransactionImage(
    producer_id=2000,
    previous_producer_id=1000,
    producer_epoch=0,
    timeout_ms=60_000,
    state=COMPLETE_COMMIT,
    start_ms=1_700_000_000_001,
    update_ms=1_700_000_000_004,
    client_version=2,
)

VERSION_1 = [
    (
        EMPTY_IMAGE,
        "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8",
    ),
    (
        ONGOING_IMAGE,
        (
            "000100000000000003e800050000ea600102076f72646572730200000003000000018bcfe56802"
            "0000018bcfe5680102000800000000000003e802020002"
        ),
    ),
    (
        PREPARED_IMAGE,
        (
            "000100000000000003e87fff0000ea600202135f5f636f6e73756d65725f6f666673657473"
            "0200000007000000018bcfe568030000018bcfe5680103000800000000000003e7"
            "010800000000000007d002020002"
        ),
    ),
    (
        COMPLETE_IMAGE,
        (
            "000100000000000007d000000000ea6004010000018bcfe568040000018bcfe56801"
            "02000800000000000003e802020002"
        ),
    ),
]
VERSION_0 = [
    (EMPTY_IMAGE, "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"),
    (
        ONGOING_IMAGE,
        (
            "000000000000000003e800050000ea60010000000100066f726465727300000001000000030000018bcfe56802"
            "0000018bcfe56801"
        ),
    ),
    (
        PREPARED_IMAGE,
        (
            "000000000000000003e87fff0000ea60020000000100125f5f636f6e73756d65725f6f666673657473"
            "00000001000000070000018bcfe568030000018bcfe56801"
        ),
    ),
    (
        COMPLETE_IMAGE,
        "000000000000000007d000000000ea6004000000000000018bcfe568040000018bcfe56801",
    ),
]


@pytest.mark.parametrize(("image", "value"), VERSION_1)
def test_our_bytes_are_kafkas(image, value):
    assert encode(TransactionRecord(NAME, image)) == (KEY, bytes.fromhex(value))
    assert decode(KEY, bytes.fromhex(value)) == TransactionRecord(NAME, image)


@pytest.mark.parametrize(("image", "value"), VERSION_0)
def test_kafkas_version_0_has_no_tagged_fields(image, value):
    read = decode(KEY, bytes.fromhex(value)).value
    for name in ("producer_id", "producer_epoch", "timeout_ms", "state", "partitions"):
        assert getattr(read, name) == getattr(image, name)
    assert (read.start_ms, read.update_ms) == (image.start_ms, image.update_ms)
    assert (read.previous_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)


def test_another_instance_has_keys_of_its_own():
    """A version that Kafka does not use, the instance, the transactional id."""
    record = TransactionRecord(TransactionKey(InstanceId("team"), "tx"), ONGOING_IMAGE)
    key, value = encode(record)
    assert key == bytes.fromhex("4800 0004 7465616d 0002 7478".replace(" ", ""))
    assert value == bytes.fromhex(VERSION_1[1][1]), "the value is Kafka's"
    assert decode(key, value) == record
    for length in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:length], None)


def test_a_null_value_deletes():
    assert encode(TransactionRecord(NAME, None)) == (KEY, None)
    assert decode(KEY, None) == TransactionRecord(NAME, None)


def test_unknown_tagged_fields_are_skipped():
    value = bytearray.fromhex(VERSION_1[0][1])
    # NextProducerEpoch, tag 3, of two-phase commit (KIP-939).
    value[-11] = 2
    value += bytes.fromhex("03020007")
    assert decode(KEY, bytes(value)).value == EMPTY_IMAGE


def test_partitions_are_written_in_order():
    partitions = frozenset(TopicPartition(t, p) for t in "ba" for p in (2, 0, 1))
    record = TransactionRecord(NAME, ONGOING_IMAGE._replace(partitions=partitions))
    key, value = encode(record)
    assert decode(key, value) == record
    assert value.index(b"\x02a") < value.index(b"\x02b")


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\x00\x01\x00\x01a", b""), (KEY, b"\x00\x02"), (KEY, b"\xff\xff")],
)
def test_unknown_versions_are_told_apart(key, value):
    with pytest.raises(UnknownRecordError):
        decode(key, value)


def test_bytes_that_end_early_or_lie_are_refused():
    value = bytes.fromhex(VERSION_1[2][1])
    for length in range(2, len(value)):
        with pytest.raises(DecodeError):
            decode(KEY, value[:length])
    for length in range(len(KEY)):
        with pytest.raises(DecodeError):
            decode(KEY[:length], None)
    status = bytearray(value)
    status[16] = 8
    with pytest.raises(DecodeError):
        decode(KEY, bytes(status))
