"""Produce: offsets, errors by partition, and the broker's checks of a batch."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import is_log_append_time
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.record import read_records
from tests.conformance.protocol.requests import (
    PRODUCE_VERSION,
    batch,
    batches_of,
    fetch,
    now_ms,
    produce,
    produce_request,
)
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

# Positions in the header of a record batch.
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_LAST_OFFSET_DELTA_AT = 23
_COUNT_AT = 57

_HOUR_MS = 3_600_000


def patched(records: bytes, position: int, form: str, value: int) -> bytes:
    """Changes a field of a batch and corrects its CRC."""
    changed = bytearray(records)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


@pytest.mark.core(version=13)
@pytest.mark.parametrize("version", range(3, 14))
def test_offsets_grow_by_records(connection: RawConnection, made_topic: str, version: int) -> None:
    first = produce(connection, made_topic, batch([b"a", b"b", b"c"]), version=version)
    second = produce(connection, made_topic, batch([b"d"]), version=version, acks=1)
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (first.base_offset, second.base_offset) == (0, 3)
    assert first.log_append_time_ms == -1
    if version >= 5:
        assert second.log_start_offset == 0


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_are_stored_as_they_came(
    connection: RawConnection, made_topic: str, codec: Compression
) -> None:
    values = [b"value %d " % index * 20 for index in range(50)]
    sent = batch(values, compression=codec)
    assert produce(connection, made_topic, sent).error_code == ErrorCode.NONE
    view = only(batches_of(fetch(connection, made_topic, 0)))
    assert view.compression == codec
    assert view.size == len(sent)
    # The broker sets base offset and leader epoch; from the magic on nothing may change.
    part = fetch(connection, made_topic, 0)
    assert bytes(part.records)[_MAGIC_AT:] == sent[_MAGIC_AT:]
    assert [record.value for record in read_records(view, 1 << 20)] == values


def test_wrong_acks(connection: RawConnection, made_topic: str) -> None:
    part = produce(connection, made_topic, batch([b"x"]), acks=2)
    assert part.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_partitions_succeed_and_fail_by_themselves(
    connection: RawConnection, made_topic: str
) -> None:
    broken = bytearray(batch([b"broken"]))
    broken[-1] ^= 1
    request = produce_request(
        made_topic, {0: batch([b"fine"]), 1: bytes(broken), 9: batch([b"nowhere"])}
    )
    parts = only(connection.ask(request, PRODUCE_VERSION).responses).partition_responses
    assert {part.index: part.error_code for part in parts} == {
        0: ErrorCode.NONE,
        1: ErrorCode.CORRUPT_MESSAGE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unknown_topic(connection: RawConnection, topic: str) -> None:
    part = produce(connection, topic, batch([b"x"]))
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(batch([b"a"]) + batch([b"b"]), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="no batch"),
        pytest.param(batch([b"a"], control=True), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(
            patched(batch([b"a"], producer=(5, 0), sequence=0), _ATTRIBUTES_AT, ">h", 0x10),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            id="transactional, and no transactional id",
        ),
        pytest.param(
            patched(batch([b"a"]), _LAST_OFFSET_DELTA_AT, ">i", 7),
            ErrorCode.INVALID_RECORD,
            id="offset range beyond the count",
        ),
        pytest.param(
            patched(batch([b"a"]), _LAST_OFFSET_DELTA_AT, ">i", -1),
            ErrorCode.INVALID_RECORD,
            id="negative offset range",
        ),
        pytest.param(
            patched(batch([b"a", b"b"]), _COUNT_AT, ">i", 1),
            ErrorCode.INVALID_RECORD,
            id="count below the offset range",
        ),
        pytest.param(
            patched(batch([b"a"]), _MAGIC_AT, ">b", 1), ErrorCode.INVALID_RECORD, id="old magic"
        ),
        pytest.param(
            batch([b"a"], timestamps=[now_ms() + 3 * _HOUR_MS]),
            ErrorCode.INVALID_TIMESTAMP,
            id="far in the future",
        ),
        pytest.param(
            batch([b"a"], producer=(5, 0), sequence=-1),
            ErrorCode.INVALID_RECORD,
            id="producer id without sequence",
        ),
    ],
)
def test_an_invalid_batch_is_refused(
    connection: RawConnection, made_topic: str, records: bytes, error: ErrorCode
) -> None:
    assert produce(connection, made_topic, records).error_code == error
    after = produce(connection, made_topic, batch([b"fine"]))
    assert (after.error_code, after.base_offset) == (ErrorCode.NONE, 0), "nothing was appended"


def test_zstd_before_version_7(connection: RawConnection, made_topic: str) -> None:
    records = batch([b"a" * 100], compression=Compression.ZSTD)
    old = produce(connection, made_topic, records, version=6)
    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(connection, made_topic, records, version=7).error_code == ErrorCode.NONE


def test_a_batch_larger_than_the_topic_allows(
    cluster: Cluster, connection: RawConnection, topic: str
) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    part = produce(connection, topic, batch([b"x" * 1000]))
    assert part.error_code == ErrorCode.MESSAGE_TOO_LARGE
    # The size after compression counts.
    small = batch([b"x" * 10_000], compression=Compression.GZIP)
    assert produce(connection, topic, small).error_code == ErrorCode.NONE


def test_log_append_time(cluster: Cluster, connection: RawConnection, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    part = produce(connection, topic, batch([b"a", b"b"], timestamps=[1, 2]))
    assert part.error_code == ErrorCode.NONE
    assert before - 1000 <= part.log_append_time_ms <= now_ms() + 1000
    view = only(batches_of(fetch(connection, topic, 0)))
    assert is_log_append_time(view.attributes)
    stamps = [record.timestamp for record in read_records(view, 1 << 20)]
    assert stamps == [part.log_append_time_ms] * 2


@pytest.mark.parametrize("version", range(7, 14))
def test_invalid_records_are_named(
    cluster: Cluster, connection: RawConnection, topic: str, version: int
) -> None:
    make_topic(cluster.bootstrap, topic, configs={"cleanup.policy": "compact"})
    part = produce(connection, topic, batch([b"no key", b"nor here"], key=None), version=version)
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in part.record_errors] == ([0, 1] if version >= 8 else [])
    assert (part.error_message is not None) == (version >= 8)


@pytest.mark.parametrize("version", range(7, 14))
@pytest.mark.parametrize("limit", ["before", "after"])
def test_records_with_invalid_timestamps_are_named(
    cluster: Cluster, connection: RawConnection, topic: str, limit: str, version: int
) -> None:
    make_topic(cluster.bootstrap, topic, configs={f"message.timestamp.{limit}.max.ms": "60000"})
    now = now_ms()
    wrong = now + (-1 if limit == "before" else 1) * _HOUR_MS
    sent = batch([b"a", b"b", b"c"], timestamps=[wrong, now, wrong], compression=Compression.GZIP)
    part = produce(connection, topic, sent, version=version)
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in part.record_errors] == ([0, 2] if version >= 8 else [])
    assert produce(connection, topic, batch([b"a"], timestamps=[now])).base_offset == 0
    assert produce(connection, topic, batch([b"a"], timestamps=[-1])).base_offset == 1


@pytest.mark.parametrize("said", [0, -1, 2**62])
def test_a_wrong_largest_timestamp_is_corrected(
    cluster: Cluster, connection: RawConnection, topic: str, said: int
) -> None:
    make_topic(cluster.bootstrap, topic)
    stamp = now_ms() - _HOUR_MS
    sent = patched(batch([b"a"], timestamps=[stamp]), _MAX_TIMESTAMP_AT, ">q", said)
    assert produce(connection, topic, sent).error_code == ErrorCode.NONE
    view = only(batches_of(fetch(connection, topic, 0)))
    assert (view.max_timestamp, view.crc_ok()) == (stamp, True)
