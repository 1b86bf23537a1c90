"""Generated classes: common methods, errors of the entry points, and records passed through."""

from dataclasses import dataclass

import pytest

from highwater.kafka.errors import (
    DecodeError,
    EncodeError,
    InvalidLengthError,
    InvalidValueError,
    TruncatedError,
    UnsupportedVersionError,
)
from highwater.kafka.message import encode_tags, join_parts, read_tag, records_length
from highwater.kafka.messages import fetch, heartbeat, metadata, produce


@dataclass
class SegmentSlice:
    """Stands for bytes in a file."""

    length: int


def fetch_response(*records) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        responses=[
            fetch.FetchResponseFetchableTopicResponse(
                topic="t",
                partitions=[
                    fetch.FetchResponsePartitionData(partition_index=index, records=item)
                    for index, item in enumerate(records)
                ],
            )
        ]
    )


def test_defaults_come_from_the_schema() -> None:
    request = fetch.FetchRequest()
    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.replica_state is None
    partition = fetch.FetchRequestFetchPartition()
    assert (partition.current_leader_epoch, partition.log_start_offset) == (-1, -1)
    assert fetch.FetchResponsePartitionData().records == b""
    assert metadata.MetadataRequest().allow_auto_topic_creation is True


def test_equality_is_by_value_and_sequences_may_be_lists_or_tuples() -> None:
    one = metadata.MetadataRequest(topics=[metadata.MetadataRequestMetadataRequestTopic(name="a")])
    two = metadata.MetadataRequest(topics=(metadata.MetadataRequestMetadataRequestTopic(name="a"),))
    assert one == two
    two.topics[0].name = "b"
    assert one != two
    assert one != fetch.FetchRequest()
    with pytest.raises(TypeError):
        hash(one)


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(AttributeError):
        fetch.FetchRequest().topicz = []
    with pytest.raises(TypeError):
        fetch.FetchRequest(topicz=[])


def test_repr_shows_fields_and_only_the_size_of_records() -> None:
    shown = repr(
        produce.ProduceRequestPartitionProduceData(index=3, records=memoryview(bytes(1_000)))
    )
    assert shown == "ProduceRequestPartitionProduceData(index=3, records=<1000 bytes>)"


def test_decoded_records_are_views_of_the_input() -> None:
    request = produce.ProduceRequest(
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name="t",
                partition_data=[produce.ProduceRequestPartitionProduceData(records=b"batch")],
            )
        ]
    )
    buffer = bytearray(produce.encode_request(request, 9))
    decoded = produce.decode_request(memoryview(buffer), 0, 9)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"batch")] = ord("B")
    assert records == b"Batch"


@pytest.mark.parametrize("version", range(4, 19))
def test_parts_keep_record_objects_and_join_to_the_whole(version: int) -> None:
    one, two, three = b"a" * 10, memoryview(b"b" * 200), bytearray(b"c" * 70_000)
    message = fetch_response(one, b"", two, three)
    parts = fetch.encode_response_parts(message, version)
    assert [part for part in parts if part is one or part is two or part is three] == [
        one,
        two,
        three,
    ]
    assert b"".join(parts) == fetch.encode_response(message, version)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_parts_take_anything_with_a_length(version: int) -> None:
    stand_in = SegmentSlice(300)
    parts = fetch.encode_response_parts(fetch_response(b"x", stand_in), version)
    assert sum(part is stand_in for part in parts) == 1
    filled = b"".join(bytes(300) if part is stand_in else part for part in parts)
    assert filled == fetch.encode_response(fetch_response(b"x", bytes(300)), version)


def test_whole_encoding_needs_the_bytes() -> None:
    with pytest.raises(EncodeError):
        fetch.encode_response(fetch_response(SegmentSlice(3)), 12)


def test_versions_outside_the_range() -> None:
    for version in (-1, 19, 1_000):
        with pytest.raises(UnsupportedVersionError):
            fetch.decode_request(b"", 0, version)
        with pytest.raises(UnsupportedVersionError):
            fetch.encode_response(fetch.FetchResponse(), version)
        with pytest.raises(UnsupportedVersionError):
            fetch.encode_response_parts(fetch.FetchResponse(), version)


def test_decode_errors_are_typed() -> None:
    with pytest.raises(TruncatedError):
        metadata.decode_request(b"\0\0\0", 0, 1)
    with pytest.raises(TruncatedError):
        metadata.decode_request(b"\0\0\0\x02\0\x01a", 0, 1)
    with pytest.raises(InvalidValueError):
        metadata.decode_request(b"\0\0\0\x01\0\x01\xff", 0, 1)
    with pytest.raises(InvalidLengthError):
        metadata.decode_request(b"\0\0\0\x01\xff\xff", 0, 1)


@pytest.mark.parametrize(
    "message",
    [
        heartbeat.HeartbeatRequest(group_id=None),
        heartbeat.HeartbeatRequest(group_id=5),
        heartbeat.HeartbeatRequest(group_id="\ud800"),
        heartbeat.HeartbeatRequest(generation_id=2**31),
        heartbeat.HeartbeatRequest(group_id="x" * 40_000),
    ],
)
def test_values_that_cannot_be_written_are_encode_errors(message) -> None:
    with pytest.raises(EncodeError):
        heartbeat.encode_request(message, 2)


def test_a_request_field_that_the_version_lacks_is_refused() -> None:
    request = heartbeat.HeartbeatRequest(group_id="g", group_instance_id="static-1")
    assert heartbeat.encode_request(request, 3)
    with pytest.raises(EncodeError, match="group_instance_id"):
        heartbeat.encode_request(request, 2)


def test_the_generated_codes_helpers() -> None:
    section = encode_tags([(0, b"ab"), (300, b"")])
    assert section == b"\x02\x00\x02ab\xac\x02\x00"
    assert read_tag(section, 1, len(section)) == (0, 5, 3)
    with pytest.raises(DecodeError):
        read_tag(section, 1, 4)
    assert records_length(SegmentSlice(9)) == 9
    assert join_parts([b"a", b"b", b"R", b"c"], [2]) == [b"ab", b"R", b"c"]
    assert join_parts([b"a", b"R"], [1]) == [b"a", b"R"]
