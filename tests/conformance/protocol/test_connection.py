"""Frames, versions and the order of replies: checks before any API's own."""

from __future__ import annotations

import struct

import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header, frame
from highwater.kafka.messages import api_versions
from highwater.kafka.messages.api_versions import ApiVersionsRequest
from highwater.kafka.messages.metadata import MetadataRequest
from tests.conformance.protocol.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    batches_of,
    fetch,
    fetch_request,
    produce,
    produce_request,
)
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, request_frame

CLIENT = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")

# The exact versions that librdkafka before 2.11.1 requires; without them it drops features.
OLD_LIBRDKAFKA_VERSIONS = {
    ApiKey.PRODUCE: [0, 3, 7],
    ApiKey.FETCH: [4, 10],
    ApiKey.LIST_OFFSETS: [1],
    ApiKey.METADATA: [0],
    ApiKey.OFFSET_COMMIT: [2],
    ApiKey.OFFSET_FETCH: [1],
    ApiKey.FIND_COORDINATOR: [0],
    ApiKey.JOIN_GROUP: [0],
    ApiKey.SYNC_GROUP: [0],
    ApiKey.HEARTBEAT: [0],
    ApiKey.LEAVE_GROUP: [0],
    ApiKey.INIT_PRODUCER_ID: [0],
}


@pytest.mark.core(version=4)
@pytest.mark.parametrize("version", range(5))
def test_api_versions(connection: RawConnection, version: int) -> None:
    reply = connection.ask(CLIENT, version)
    assert reply.error_code == ErrorCode.NONE
    keys = [api.api_key for api in reply.api_keys]
    assert keys == sorted(set(keys))
    ranges = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    assert all(0 <= low <= high for low, high in ranges.values())
    for key, versions in OLD_LIBRDKAFKA_VERSIONS.items():
        low, high = ranges[key]
        assert all(low <= wanted <= high for wanted in versions), key.name


def test_api_versions_again_on_the_same_connection(connection: RawConnection) -> None:
    assert connection.ask(CLIENT, 3) == connection.ask(CLIENT, 3)


def test_api_versions_in_an_unknown_version(connection: RawConnection) -> None:
    header = encode_request_header(ApiKey.API_VERSIONS, 99, 4711, "raw")
    connection.send_bytes(frame(header, b"whatever"))
    content = connection.receive_frame()
    # The client cannot know the broker's version yet, so header and body have version 0.
    assert struct.unpack_from(">i", content) == (4711,)
    reply = api_versions.decode_response(content, 4, 0)
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
    own = [api for api in reply.api_keys if api.api_key == ApiKey.API_VERSIONS]
    assert [(api.min_version, api.max_version) for api in own] == [(0, 4)]
    assert connection.ask(CLIENT, 3).error_code == ErrorCode.NONE, "the connection lives on"


@pytest.mark.parametrize("name", ["", "-raw", "raw-", "r w"])
def test_api_versions_from_a_client_with_a_bad_name(connection: RawConnection, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    assert connection.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.core
def test_replies_come_in_the_order_of_requests(connection: RawConnection, made_topic: str) -> None:
    connection.send(fetch_request(made_topic, {0: 0}, max_wait_ms=300), FETCH_VERSION)
    connection.send(produce_request(made_topic, {1: batch([b"one"])}), PRODUCE_VERSION)
    connection.send(CLIENT, 2)
    connection.send(produce_request(made_topic, {1: batch([b"two"])}, acks=1), PRODUCE_VERSION)
    connection.send(fetch_request(made_topic, {1: 1}), FETCH_VERSION)
    connection.send(MetadataRequest(topics=[]), 9)
    fetched = connection.receive()
    assert fetched.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert connection.receive().responses[0].partition_responses[0].base_offset == 0
    assert connection.receive().error_code == ErrorCode.NONE
    assert connection.receive().responses[0].partition_responses[0].base_offset == 1
    second = connection.receive().responses[0].partitions[0]
    assert [view.base_offset for view in batches_of(second)] == [1]
    assert len(connection.receive().brokers) >= 1


def test_a_request_may_come_byte_by_byte(connection: RawConnection) -> None:
    for one in request_frame(CLIENT, 3, 99):
        connection.send_bytes(bytes([one]))
    assert struct.unpack_from(">i", connection.receive_frame()) == (99,)


@pytest.mark.parametrize("key", [ApiKey.LEADER_AND_ISR, 999, -1])
def test_an_unknown_key_closes_the_connection(connection: RawConnection, key: int) -> None:
    connection.send_bytes(frame(struct.pack(">hhih", key, 0, 1, -1)))
    connection.wait_for_close()


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.JOIN_GROUP])
def test_an_unsupported_version_closes_the_connection(connection: RawConnection, key: int) -> None:
    connection.send_bytes(frame(struct.pack(">hhih", key, 99, 1, -1), b"\0" * 64))
    connection.wait_for_close()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_of_the_old_formats_closes_the_connection(
    connection: RawConnection, version: int
) -> None:
    body = struct.pack(">hii", 1, 1000, 0)  # acks, timeout, no topics
    connection.send_bytes(frame(struct.pack(">hhih", ApiKey.PRODUCE, version, 1, -1), body))
    connection.wait_for_close()


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1])
def test_an_impossible_frame_length_closes_the_connection(
    connection: RawConnection, length: int
) -> None:
    connection.send_bytes(struct.pack(">i", length) + b"\0" * 16)
    connection.wait_for_close()


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_cut_off_body_closes_the_connection(
    connection: RawConnection, made_topic: str, cut: int
) -> None:
    whole = request_frame(produce_request(made_topic, {0: batch([b"x"])}), PRODUCE_VERSION, 1)[4:]
    connection.send_bytes(frame(whole[:-cut]))
    connection.wait_for_close()


@pytest.mark.core
def test_acks_0_takes_no_reply(connection: RawConnection, made_topic: str) -> None:
    request = produce_request(made_topic, {0: batch([b"fire and forget"])}, acks=0)
    connection.send(request, PRODUCE_VERSION, answered=False)
    assert connection.ask(CLIENT, 3).error_code == ErrorCode.NONE
    part = fetch(connection, made_topic, 0, max_wait_ms=5_000)
    assert [view.record_count for view in batches_of(part)] == [1]


def test_an_error_with_acks_0_closes_the_connection(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    request = produce_request(made_topic, {77: batch([b"nowhere"])}, acks=0)
    connection.send(request, PRODUCE_VERSION, answered=False)
    connection.wait_for_close()
    with RawConnection.to(cluster.bootstrap) as other:
        assert produce(other, made_topic, batch([b"x"])).error_code == ErrorCode.NONE
