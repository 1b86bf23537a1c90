"""Produce 0 to 2, Fetch 0 to 3 and ListOffsets 0 on a gateway with `old_message_formats`.

Kafka 4.3 has none of these versions, so the tests have a cluster of their own. What a gateway without
the setting does is in `test_versions`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.api_versions import ApiVersionsRequest
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
)
from highwater.kafka.records.compression import Compression, compress, decompress
from highwater.kafka.records.lz4_format_0 import compress_lz4, decompress_lz4
from highwater.kafka.records.message_set import Message, append_message, iter_messages
from highwater.kafka.records.record import read_records
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    fetch_request,
    now_ms,
    produce,
)
from tests.conformance.topics import make_topic
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.wire import RawConnection, only

SIZE_MAX = 1 << 24
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
PRODUCE = pytest.mark.parametrize("produce_version", [0, 1, 2])
FETCH = pytest.mark.parametrize("fetch_version", [0, 1, 2, 3])
FIRST_MS = 1_500_000_000_000


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    environment = {"HIGHWATER_GATEWAY_OLD_MESSAGE_FORMATS": "true"}
    cluster = EmbeddedCluster(tmp_path_factory.mktemp("old"), environment=environment)
    cluster.start()
    yield cluster
    assert cluster.complaints() == []
    cluster.stop()


@pytest.fixture
def connection(old: EmbeddedCluster) -> Iterator[RawConnection]:
    with RawConnection.to(old.bootstrap) as opened:
        yield opened


@pytest.fixture
def made_topic(old: EmbeddedCluster, topic: str) -> str:
    return make_topic(old.bootstrap, topic, partitions=2)


def message_set(values: list[bytes], magic: int, codec: int = 0) -> bytes:
    """A producer's message set, one second between its messages."""
    out = bytearray()
    for n, value in enumerate(values):
        append_message(
            out,
            magic=magic,
            offset=n,
            attributes=0,
            timestamp=FIRST_MS + 1000 * n,
            key=b"key",
            value=value,
        )
    if codec == Compression.NONE:
        return bytes(out)
    packed = compress_lz4(out) if codec == Compression.LZ4 and not magic else compress(codec, out)
    wrapped = bytearray()
    append_message(
        wrapped, magic=magic, offset=0, attributes=codec, timestamp=0, key=None, value=packed
    )
    return bytes(wrapped)


def told(records: memoryview, magic: int, codec: int) -> list[Message]:
    """The messages of one answer, those of wrappers with absolute offsets."""
    found: list[Message] = []
    for message in iter_messages(records):
        assert (message.magic, message.attributes & 7) == (magic, codec)
        if codec == Compression.NONE:
            found.append(message)
            continue
        assert message.value is not None
        old_lz4 = codec == Compression.LZ4 and not magic
        data = (
            decompress_lz4(message.value, SIZE_MAX)
            if old_lz4
            else decompress(codec, message.value, SIZE_MAX)
        )
        inner = list(iter_messages(data))
        base = 0 if not magic else message.offset - inner[-1].offset
        found += [one._replace(offset=base + one.offset) for one in inner]
    return found


def values(messages: list[Message]) -> list[tuple[int, bytes]]:
    return [(one.offset, bytes(one.value or b"")) for one in messages]


@PRODUCE
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_there_and_back(
    connection: RawConnection, made_topic: str, produce_version: int, magic: int, codec: int
) -> None:
    sent = [b"a" * 10_000, b"b" * 60_000, b"c"]
    records = message_set(sent, magic, codec)
    part = produce(connection, made_topic, records, version=produce_version)
    assert (part.error_code, part.base_offset) == (0, 0)
    part = produce(connection, made_topic, message_set([b"d"], magic), version=produce_version)
    assert (part.error_code, part.base_offset) == (0, 3)

    first, second = batches_of(fetch(connection, made_topic, 0))
    assert (first.compression, second.compression) == (codec, 0)
    times = [FIRST_MS, FIRST_MS + 1000, FIRST_MS + 2000] if magic else [-1] * 3
    assert [r.timestamp for r in read_records(first, SIZE_MAX)] == times
    assert [r.value for r in read_records(first, SIZE_MAX)] == sent

    for version in range(4):
        told_magic = 1 if version >= 2 else 0
        part = fetch(connection, made_topic, 3, version=version)
        assert values(told(part.records, told_magic, 0)) == [(3, b"d")]
        assert part.high_watermark == 4
        part = fetch(connection, made_topic, 0, version=version, partition_max_bytes=1)
        found = told(part.records, told_magic, codec)
        assert values(found) == list(enumerate(sent))
        if told_magic:
            assert [one.timestamp for one in found] == times


@FETCH
def test_fetch_waits_for_messages(
    connection: RawConnection, old: EmbeddedCluster, made_topic: str, fetch_version: int
) -> None:
    connection.send(fetch_request(made_topic, {0: 0}, max_wait_ms=10_000), fetch_version)
    time.sleep(0.3)
    with RawConnection.to(old.bootstrap) as other:
        produce(other, made_topic, batch([b"a"]))
    part = only(only(connection.receive().responses).partitions)
    assert values(told(part.records, int(fetch_version >= 2), 0)) == [(0, b"a")]


@FETCH
def test_offsets_out_of_range(
    connection: RawConnection, made_topic: str, fetch_version: int
) -> None:
    part = fetch(connection, made_topic, 5, version=fetch_version)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@FETCH
def test_zstd_cannot_be_told(
    connection: RawConnection, made_topic: str, fetch_version: int
) -> None:
    produce(connection, made_topic, batch([b"a"]))
    produce(connection, made_topic, batch([b"b"] * 100, compression=Compression.ZSTD))
    part = fetch(connection, made_topic, 0, version=fetch_version)
    assert values(told(part.records, int(fetch_version >= 2), 0)) == [(0, b"a")]
    part = fetch(connection, made_topic, 1, version=fetch_version)
    assert part.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@PRODUCE
def test_log_append_time(
    connection: RawConnection, old: EmbeddedCluster, topic: str, produce_version: int
) -> None:
    make_topic(old.bootstrap, topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    records = message_set([b"a", b"b"], 1, Compression.GZIP)
    part = produce(connection, topic, records, version=produce_version)
    if produce_version == 2:
        assert before <= part.log_append_time_ms <= now_ms()
    [wrapper] = iter_messages(fetch(connection, topic, 0, version=2).records)
    assert wrapper.attributes == Compression.GZIP | 8
    assert before <= wrapper.timestamp <= now_ms()


@PRODUCE
def test_a_compacted_topic_wants_keys(
    connection: RawConnection, old: EmbeddedCluster, topic: str, produce_version: int
) -> None:
    make_topic(old.bootstrap, topic, configs={"cleanup.policy": "compact"})
    out = bytearray()
    append_message(out, magic=1, offset=0, attributes=0, timestamp=1, key=None, value=b"v")
    part = produce(connection, topic, bytes(out), version=produce_version)
    assert part.error_code == ErrorCode.INVALID_RECORD
    part = produce(connection, topic, message_set([b"v"], 1), version=produce_version)
    assert part.error_code == 0


@PRODUCE
def test_the_largest_message(
    connection: RawConnection, old: EmbeddedCluster, topic: str, produce_version: int
) -> None:
    make_topic(old.bootstrap, topic, configs={"max.message.bytes": "1000"})
    large = produce(connection, topic, message_set([b"x" * 950], 1), version=produce_version)
    assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    small = produce(connection, topic, message_set([b"x" * 900], 1), version=produce_version)
    assert small.error_code == 0


@PRODUCE
def test_bytes_that_are_no_messages(
    connection: RawConnection, made_topic: str, produce_version: int
) -> None:
    good = bytearray(message_set([b"a"], 1))
    good[-1] ^= 1
    for records in (bytes(good), b"x" * 100, b""):
        part = produce(connection, made_topic, records, version=produce_version)
        assert part.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    # As before in the versions that have record batches.
    part = produce(connection, made_topic, message_set([b"a" * 100], 1))
    assert part.error_code == ErrorCode.INVALID_RECORD


def test_list_offsets_0(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, message_set([b"a", b"b", b"c"], 1), version=2)

    def offsets(timestamp: int, most: int) -> list[int]:
        part = ListOffsetsRequestListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=most)
        topics = [ListOffsetsRequestListOffsetsTopic(made_topic, [part])]
        answer = connection.ask(ListOffsetsRequest(-1, topics=topics), 0)
        told = only(only(answer.topics).partitions)
        assert told.error_code == 0
        return list(told.old_style_offsets)

    assert offsets(-1, 1) == [3]
    assert offsets(-1, 10) == [3, 0]
    assert offsets(-2, 10) == [0]
    assert offsets(FIRST_MS + 2000, 10) == [2, 0]
    assert offsets(now_ms(), 10) == [3, 0]


def test_the_versions_are_advertised(connection: RawConnection) -> None:
    ranges = {one.api_key: one for one in connection.ask(ApiVersionsRequest(), 0).api_keys}
    assert [ranges[key].min_version for key in (0, 1, 2)] == [0, 0, 0]
    assert [ranges[key].max_version for key in (0, 1, 2)] == [13, 18, 11]
