"""The limit server closes a connection whose bytes it cannot read, says why, and serves on."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from highwater.kafka.message import Message
from highwater.kafka.messages import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
)
from tests.bench import limit_client
from tests.bench.limit_client import batch_of
from tests.bench.peer_limit import LimitServer
from tests.support.wire import ConnectionEnded, RawConnection, request_frame

SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "runtime error")
MUTATIONS_PER_REQUEST = 150

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def server() -> Iterator[LimitServer]:
    """A running server with a topic, which must end without an error of a sanitizer."""
    peer = LimitServer(sanitized=True)
    try:
        peer.start()
        peer.create_topic("t", 1, {})
        yield peer
        with RawConnection.to(peer.bootstrap) as connection:
            assert limit_client.send_batch(connection, "t", batch_of([b"after all"]))[0] == 0
        code, text = peer.end(), peer.log.read_text()
        assert code == 0, text
        assert not any(word in text for word in SANITIZERS), text
    finally:
        peer.stop()


def _frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">i", len(header) + len(body)) + header + body


PRODUCE = request_frame(limit_client.produce_request("t", [(0, batch_of([b"v"]))]), 9, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", (128 << 20) + 1), "a frame of 134217729 bytes"),
        (struct.pack(">i", -5), "a frame of -5 bytes"),
        (_frame(b"\0\0\0"), "a frame without a request header"),
        (_frame(struct.pack(">hhih", 99, 0, 1, 0)), "a request of API 99 version 0"),
        (_frame(struct.pack(">hhih", 0, 2, 1, 0)), "a request of API 0 version 2"),
        (_frame(struct.pack(">hhih", 0, 9, 1, 500)), "cannot read API 0 version 9"),
        (_frame(PRODUCE[4:-1]), "cannot read API 0 version 9"),
        (_frame(PRODUCE[4:], b"\0"), "cannot read API 0 version 9"),
        (_frame(struct.pack(">hhihi", 3, 4, 1, -1, 1 << 30)), "cannot read API 3 version 4"),
    ],
)
def test_frames_that_cannot_be_read(server: LimitServer, data: bytes, reason: str) -> None:
    with RawConnection.to(server.bootstrap) as other, RawConnection.to(server.bootstrap) as bad:
        bad.send_bytes(data)
        bad.wait_for_close()
        assert reason in server.log.read_text()
        # A response to what came before is still sent.
        bad_again = RawConnection.to(server.bootstrap)
        with bad_again:
            bad_again.send(metadata.MetadataRequest(topics=None), 9)
            bad_again.send_bytes(data)
            assert len(bad_again.receive().topics) == 1
            bad_again.wait_for_close()
        assert len(other.ask(metadata.MetadataRequest(topics=None), 9).topics) == 1


@pytest.mark.parametrize("size", [2, 20, len(PRODUCE) - 1])
def test_a_frame_that_ends_early_is_not_handled(server: LimitServer, size: int) -> None:
    with RawConnection.to(server.bootstrap) as connection:
        connection.send_bytes(PRODUCE[:size])
        connection.shutdown_sending()
        connection.wait_for_close()
    expected = f"ended after {size} bytes of a frame"
    assert expected in server.log.read_text()
    assert limit_client.segment_files(server.data_dir, "t") == {}


def test_a_frame_may_come_in_any_pieces(server: LimitServer) -> None:
    large = request_frame(
        limit_client.produce_request("t", [(0, batch_of([b"v" * 900_000]))]), 9, 7
    )
    data = PRODUCE + large + PRODUCE
    dice = random.Random(5)
    with RawConnection.to(server.bootstrap) as connection:
        at = 0
        while at < len(data):
            size = dice.choice((1, 3, 50, 10_000, 400_000))
            connection.send_bytes(data[at : at + size])
            at += size
        for correlation in (1, 7, 1):
            reply = connection.receive_frame()
            assert int.from_bytes(reply[:4], "big") == correlation
        assert limit_client.offset_at(connection, "t", limit_client.LATEST) == 3


def _requests() -> list[tuple[Message, int]]:
    topic = create_topics.CreateTopicsRequestCreatableTopic(
        name="made", num_partitions=2, replication_factor=1,
        configs=[create_topics.CreateTopicsRequestCreatableTopicConfig(
            name="segment.bytes", value="2000000")],
    )  # fmt: skip
    offsets = list_offsets.ListOffsetsRequestListOffsetsTopic(
        name="t", partitions=[list_offsets.ListOffsetsRequestListOffsetsPartition(timestamp=-1)]
    )
    named = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestMetadataRequestTopic(name="t")]
    )
    versions = api_versions.ApiVersionsRequest(
        client_software_name="a", client_software_version="1"
    )
    produce = limit_client.produce_request("t", [(0, batch_of([b"v"])), (3, batch_of([b"w"]))])
    read = limit_client.fetch_request("t", 0)
    assert isinstance(read, fetch.FetchRequest)
    return [
        (produce, 3), (produce, 9), (read, 4), (read, 12), (named, 4), (named, 9),
        (versions, 0), (versions, 3), (list_offsets.ListOffsetsRequest(topics=[offsets]), 5),
        (create_topics.CreateTopicsRequest(topics=[topic]), 4),
        (delete_topics.DeleteTopicsRequest(topic_names=["made", "not"]), 1),
        (init_producer_id.InitProducerIdRequest(transaction_timeout_ms=1), 1),
    ]  # fmt: skip


def test_mutated_requests_do_no_harm(server: LimitServer) -> None:
    dice = random.Random(20)
    for request, version in _requests():
        whole = request_frame(request, version, 1)[4:]
        for _ in range(MUTATIONS_PER_REQUEST):
            content = bytearray(whole)
            for _ in range(dice.randint(1, 3)):
                # Mostly behind the API key and version: else nearly all are refused at once.
                at = dice.randrange(0 if dice.random() < 0.1 else 4, len(content))
                content[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            del content[dice.randrange(4, len(content) + 200) :]
            with RawConnection.to(server.bootstrap) as connection:
                connection.send_bytes(_frame(bytes(content)))
                connection.shutdown_sending()
                try:
                    while True:
                        connection.receive_frame()
                except ConnectionEnded:
                    pass
