"""Fetch sessions (KIP-227): news only, errors, and the end, by raw requests."""

from __future__ import annotations

import threading
import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchRequestForgottenTopic,
    FetchResponse,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from tests.conformance.protocol.requests import batch, produce
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

PARTITIONS = 6
EVERY = dict.fromkeys(range(PARTITIONS), 0)


class SessionClient:
    """One topic's fetches in a session, by name up to version 12 and by id above."""

    def __init__(self, connection: RawConnection, topic: str, version: int) -> None:
        self.connection, self.version = connection, version
        asked = MetadataRequest([MetadataRequestMetadataRequestTopic(name=topic)])
        topic_id = only(connection.ask(asked, 12).topics).topic_id
        self.named = ("", topic_id) if version >= 13 else (topic, bytes(16))

    def ask(
        self,
        session: int,
        epoch: int,
        offsets: dict[int, int] | None = None,
        *,
        forget: tuple[int, ...] = (),
        max_wait_ms: int = 0,
    ) -> FetchResponse:
        asked = [
            FetchRequestFetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20)
            for p, o in (offsets or {}).items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=session,
            session_epoch=epoch,
            topics=[FetchRequestFetchTopic(*self.named, asked)] if asked else [],
            forgotten_topics_data=[FetchRequestForgottenTopic(*self.named, list(forget))]
            if forget
            else [],
        )
        response: FetchResponse = self.connection.ask(request, self.version)
        return response


def told(response: FetchResponse) -> dict[int, tuple[int, int]]:
    """{partition: (code, high watermark)}."""
    return {
        p.partition_index: (p.error_code, p.high_watermark)
        for t in response.responses
        for p in t.partitions
    }


@pytest.fixture(params=[7, 11, 12, 13, 17])
def client(
    cluster: Cluster, connection: RawConnection, topic: str, request: pytest.FixtureRequest
) -> SessionClient:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    return SessionClient(connection, topic, request.param)


def begun(client: SessionClient, offsets: dict[int, int] = EVERY) -> int:
    response = client.ask(0, 0, offsets)
    assert response.error_code == ErrorCode.NONE
    assert told(response) == dict.fromkeys(offsets, (0, 0))
    assert response.session_id > 0
    return response.session_id


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_only_news_are_told(
    cluster: Cluster, client: SessionClient, topic: str, partitions: int
) -> None:
    session = begun(client, dict.fromkeys(range(partitions), 0))
    for epoch in (1, 2):
        response = client.ask(session, epoch)
        assert (response.error_code, response.session_id, told(response)) == (0, session, {})
    last = partitions - 1
    with RawConnection.to(cluster.bootstrap) as other:
        produce(other, topic, batch([b"a"]), partition=last)
    assert told(client.ask(session, 3, max_wait_ms=5000)) == {last: (0, 1)}
    assert told(client.ask(session, 4)) == {last: (0, 1)}, "until its offset moves"
    assert told(client.ask(session, 5, {last: 1})) == {}


def test_a_waiting_fetch_ends_with_news_of_any_partition(
    cluster: Cluster, client: SessionClient, topic: str
) -> None:
    session = begun(client)

    def produce_later() -> None:
        time.sleep(0.3)
        with RawConnection.to(cluster.bootstrap) as other:
            produce(other, topic, batch([b"late"]), partition=4)

    producer = threading.Thread(target=produce_later)
    producer.start()
    started = time.monotonic()
    response = client.ask(session, 1, max_wait_ms=15_000)
    producer.join(20)
    assert told(response) == {4: (0, 1)}
    assert 0.25 <= time.monotonic() - started < 5


def test_partitions_come_and_go(client: SessionClient) -> None:
    session = begun(client, {0: 0})
    assert told(client.ask(session, 1, {1: 0, 2: 0})) == {1: (0, 0), 2: (0, 0)}
    assert told(client.ask(session, 2, forget=(0, 1))) == {}
    assert client.ask(session, 3, forget=(2,)).session_id == 0
    assert client.ask(session, 4).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_errors_are_told_each_time(client: SessionClient) -> None:
    session = begun(client)
    out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
    for epoch, offsets in ((1, {3: 77}), (2, {}), (3, {})):
        assert told(client.ask(session, epoch, offsets)) == {3: (out_of_range, -1)}
    assert told(client.ask(session, 4, {3: 0})) == {3: (0, 0)}
    assert told(client.ask(session, 5)) == {}


def test_fetches_out_of_order_are_refused(client: SessionClient) -> None:
    session = begun(client)
    wrong = client.ask(session, 2)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (wrong.session_id, list(wrong.responses)) == (0, [])
    assert client.ask(session, 1).error_code == ErrorCode.NONE
    assert client.ask(session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_its_session(client: SessionClient, epoch: int) -> None:
    session = begun(client)
    response = client.ask(session, epoch, {0: 0})
    assert told(response) == {0: (0, 0)}
    assert (response.session_id > 0) == (epoch == 0)
    assert client.ask(session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_are_not_mixed(client: SessionClient, topic: str) -> None:
    session = begun(client)
    other = SessionClient(client.connection, topic, 12 if client.version >= 13 else 13)
    assert other.ask(session, 1).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert client.ask(session, 1).error_code == ErrorCode.NONE
