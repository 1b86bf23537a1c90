"""The layouts of formats 0 and 1, byte for byte."""

import struct
import zlib

import pytest

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.message_set import (
    NO_TIMESTAMP,
    SET_ATTRIBUTES_AT,
    SET_MAGIC_AT,
    append_message,
    iter_messages,
)
from tests.unit.kafka.records.old_sets import (
    JAVA_0_9,
    JAVA_0_10_FORMAT_1,
    JAVA_0_10_STAMPED,
    LOG_APPEND_TIME,
    TIMESTAMPS,
)


def message(magic, offset, key, value, timestamp=NO_TIMESTAMP, attributes=0):
    out = bytearray()
    append_message(
        out,
        magic=magic,
        offset=offset,
        attributes=attributes,
        timestamp=timestamp,
        key=key,
        value=value,
    )
    return bytes(out)


def plain(messages):
    return [
        (m.offset, m.timestamp, m.key and bytes(m.key), m.value and bytes(m.value))
        for m in messages
    ]


def test_format_0_field_by_field():
    made = message(0, 5, b"key", b"value")
    fields = [
        ("offset", 8, 5),
        ("size", 4, 22),
        ("crc", 4, zlib.crc32(made[16:])),
        ("magic", 1, 0),
        ("attributes", 1, 0),
        ("key length", 4, 3),
        ("key", 3, int.from_bytes(b"key", "big")),
        ("value length", 4, 5),
        ("value", 5, int.from_bytes(b"value", "big")),
    ]
    assert made == b"".join(value.to_bytes(width, "big") for _, width, value in fields)
    assert made[SET_MAGIC_AT : SET_ATTRIBUTES_AT + 1] == b"\0\0"


def test_format_1_has_a_timestamp_behind_the_attributes():
    made = message(1, 5, None, b"value", timestamp=0x0102030405060708, attributes=8)
    fields = [
        ("offset", 8, 5),
        ("size", 4, 27),
        ("crc", 4, zlib.crc32(made[16:])),
        ("magic", 1, 1),
        ("attributes", 1, 8),
        ("timestamp", 8, 0x0102030405060708),
        ("key length", 4, 0xFFFFFFFF),
        ("value length", 4, 5),
        ("value", 5, int.from_bytes(b"value", "big")),
    ]
    assert made == b"".join(value.to_bytes(width, "big") for _, width, value in fields)


def test_same_bytes_as_kafkas_java_clients():
    first, second = TIMESTAMPS
    assert message(0, 0, b"k", b"one") + message(0, 1, None, b"two") == bytes.fromhex(
        JAVA_0_9["none"]
    )
    assert message(1, 10, b"k", b"one", first) + message(
        1, 11, None, b"two", second
    ) == bytes.fromhex(JAVA_0_10_FORMAT_1["none"])
    assert message(1, 10, b"k", b"one", LOG_APPEND_TIME, 8) + message(
        1, 11, None, b"two", LOG_APPEND_TIME, 8
    ) == bytes.fromhex(JAVA_0_10_STAMPED["none"])


def test_reads_what_kafkas_java_clients_wrote():
    first, second = TIMESTAMPS
    assert plain(iter_messages(bytes.fromhex(JAVA_0_9["none"]))) == [
        (0, NO_TIMESTAMP, b"k", b"one"),
        (1, NO_TIMESTAMP, None, b"two"),
    ]
    assert plain(iter_messages(bytes.fromhex(JAVA_0_10_FORMAT_1["none"]))) == [
        (10, first, b"k", b"one"),
        (11, second, None, b"two"),
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_may_be_cut_off_anywhere(magic):
    one = message(magic, 0, b"k", b"one", 1)
    two = message(magic, 1, None, None, 2)
    for end in range(len(one) + len(two)):
        found = list(iter_messages((one + two)[:end]))
        assert len(found) == (end >= len(one))
    assert len(list(iter_messages(one + two))) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_behind_the_size_is_seen(magic):
    made = message(magic, 0, b"k", b"one", 1)
    for at in range(12, len(made)):
        bad = bytearray(made)
        bad[at] ^= 0x10
        with pytest.raises(RecordsError):
            list(iter_messages(bad))


def _with_crc(body):
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00" + struct.pack(">ii", -2, -1),
        b"\x00\x00" + struct.pack(">ii", -1, 7),
        b"\x00\x00" + struct.pack(">ii", 100, -1),
        b"\x00\x00" + struct.pack(">ii", -1, -1) + b"more",
        b"\x01\x00" + struct.pack(">qi", 1, -1),
        b"\x01\x00" + struct.pack(">ii", -1, -1),
        b"\x02\x00" + struct.pack(">ii", -1, -1),
        b"\x7f\x00" + struct.pack(">ii", -1, -1),
    ],
)
def test_impossible_fields_are_refused(body):
    with pytest.raises(RecordsError):
        list(iter_messages(_with_crc(body)))


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_an_impossible_size_is_refused(size):
    with pytest.raises(RecordsError, match="impossible size"):
        list(iter_messages(struct.pack(">qi", 0, size) + bytes(40)))
