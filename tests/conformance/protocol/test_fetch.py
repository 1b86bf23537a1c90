"""Fetch: long polling, limits that do not apply to the first batch, and bounds of the log."""

from __future__ import annotations

import threading
import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.conformance.protocol.requests import (
    FETCH_VERSION,
    batch,
    batches_of,
    fetch,
    fetch_request,
    produce,
)
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

_BIG = b"x" * 10_000


@pytest.mark.core(version=18)
@pytest.mark.parametrize("version", range(4, 19))
def test_reads_what_was_written(connection: RawConnection, made_topic: str, version: int) -> None:
    produce(connection, made_topic, batch([b"a", b"b"]))
    produce(connection, made_topic, batch([b"c"]))
    part = fetch(connection, made_topic, 0, version=version)
    assert part.error_code == ErrorCode.NONE
    assert part.high_watermark == 3
    assert part.last_stable_offset == 3
    assert not part.aborted_transactions
    assert [(view.base_offset, view.record_count) for view in batches_of(part)] == [(0, 2), (2, 1)]
    if version >= 5:
        assert part.log_start_offset == 0


def test_the_batch_that_contains_the_offset_comes_whole(
    connection: RawConnection, made_topic: str
) -> None:
    produce(connection, made_topic, batch([b"a", b"b", b"c"]))
    produce(connection, made_topic, batch([b"d"]))
    part = fetch(connection, made_topic, 1)
    assert [view.base_offset for view in batches_of(part)] == [0, 3]


@pytest.mark.core
def test_waits_for_max_wait_when_there_is_nothing(
    connection: RawConnection, made_topic: str
) -> None:
    produce(connection, made_topic, batch([b"a"]))
    started = time.monotonic()
    part = fetch(connection, made_topic, 1, max_wait_ms=600)
    waited = time.monotonic() - started
    assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 1)
    assert not part.records
    assert 0.55 <= waited < 5


def test_does_not_wait_with_max_wait_0(connection: RawConnection, made_topic: str) -> None:
    started = time.monotonic()
    assert fetch(connection, made_topic, 0, max_wait_ms=0).error_code == ErrorCode.NONE
    assert time.monotonic() - started < 2


@pytest.mark.core
@pytest.mark.parametrize("acks", [1, -1])
def test_a_waiting_fetch_answers_when_data_comes(
    cluster: Cluster, connection: RawConnection, made_topic: str, acks: int
) -> None:
    def produce_later() -> None:
        time.sleep(0.3)
        with RawConnection.to(cluster.bootstrap) as other:
            produce(other, made_topic, batch([b"late"]), acks=acks)

    producer = threading.Thread(target=produce_later)
    producer.start()
    started = time.monotonic()
    part = fetch(connection, made_topic, 0, max_wait_ms=15_000)
    waited = time.monotonic() - started
    producer.join(20)
    assert [view.record_count for view in batches_of(part)] == [1]
    assert 0.25 <= waited < 5


def test_waits_for_min_bytes(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, batch([b"a"]))
    started = time.monotonic()
    part = fetch(connection, made_topic, 0, max_wait_ms=600, min_bytes=100_000)
    assert time.monotonic() - started >= 0.55
    assert [view.record_count for view in batches_of(part)] == [1]
    produce(connection, made_topic, batch([_BIG]))
    started = time.monotonic()
    part = fetch(connection, made_topic, 0, max_wait_ms=15_000, min_bytes=10_000)
    assert time.monotonic() - started < 5
    assert len(batches_of(part)) == 2


def test_the_first_batch_comes_whole_however_small_the_limits(
    connection: RawConnection, made_topic: str
) -> None:
    for _ in range(2):
        produce(connection, made_topic, batch([_BIG]))
    part = fetch(connection, made_topic, 0, max_bytes=1, partition_max_bytes=1)
    assert [view.base_offset for view in batches_of(part)] == [0]
    part = fetch(connection, made_topic, 1, max_bytes=1, partition_max_bytes=1)
    assert [view.base_offset for view in batches_of(part)] == [1]


def test_partition_max_bytes_is_a_limit_after_the_first_batch(
    connection: RawConnection, made_topic: str
) -> None:
    for _ in range(6):
        produce(connection, made_topic, batch([_BIG]))
    part = fetch(connection, made_topic, 0, partition_max_bytes=25_000)
    assert len(part.records) <= 25_000
    assert [view.base_offset for view in batches_of(part)] == [0, 1]


def test_max_bytes_is_a_limit_over_partitions(connection: RawConnection, made_topic: str) -> None:
    for partition in (0, 1):
        for _ in range(3):
            produce(connection, made_topic, batch([_BIG]), partition=partition)
    request = fetch_request(made_topic, {1: 0, 0: 0}, max_bytes=35_000)
    parts = only(connection.ask(request, FETCH_VERSION).responses).partitions
    assert [part.partition_index for part in parts] == [1, 0], "in the order of the request"
    assert sum(len(part.records or b"") for part in parts) <= 35_000
    assert len(batches_of(parts[0])) == 3


def test_reads_two_partitions(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, batch([b"a"]), partition=0)
    produce(connection, made_topic, batch([b"b", b"c"]), partition=1)
    request = fetch_request(made_topic, {0: 0, 1: 0}, min_bytes=150)
    parts = only(connection.ask(request, FETCH_VERSION).responses).partitions
    assert {part.partition_index: part.high_watermark for part in parts} == {0: 1, 1: 2}


@pytest.mark.parametrize("offset", [-1, 2, 1_000_000])
def test_offsets_outside_the_log(connection: RawConnection, made_topic: str, offset: int) -> None:
    produce(connection, made_topic, batch([b"a"]))
    started = time.monotonic()
    part = fetch(connection, made_topic, offset, max_wait_ms=10_000)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert part.high_watermark == -1
    assert not part.records
    assert time.monotonic() - started < 5, "an error does not wait"


def test_unknown_topic_and_partition(
    connection: RawConnection, made_topic: str, topic: str
) -> None:
    part = fetch(connection, made_topic, 0, partition=7)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    part = fetch(connection, f"no-{topic}", 0)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_no_session_when_none_is_asked_for(connection: RawConnection, made_topic: str) -> None:
    reply = connection.ask(fetch_request(made_topic, {0: 0}, max_wait_ms=0), FETCH_VERSION)
    assert (reply.error_code, reply.session_id) == (ErrorCode.NONE, 0)


def test_a_session_may_be_offered_but_a_full_fetch_answers_in_full(
    connection: RawConnection, made_topic: str
) -> None:
    produce(connection, made_topic, batch([b"a"]))
    request = fetch_request(made_topic, {0: 0, 1: 0})
    request.session_epoch = 0
    parts = only(connection.ask(request, FETCH_VERSION).responses).partitions
    assert [part.partition_index for part in parts] == [0, 1]


def test_an_unknown_session(connection: RawConnection, made_topic: str) -> None:
    request = fetch_request(made_topic, {0: 0})
    request.session_id, request.session_epoch = 123_456, 1
    reply = connection.ask(request, FETCH_VERSION)
    assert reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_future_leader_epoch(connection: RawConnection, made_topic: str) -> None:
    part = fetch(connection, made_topic, 0, current_leader_epoch=1_000)
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
