"""The limit server, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch, init_producer_id, metadata
from tests.bench import limit_client, load, session, startup
from tests.bench.limit_client import EARLIEST, LATEST, batch_of
from tests.bench.peer_limit import LimitServer
from tests.bench.session import Session, Settings
from tests.bench.workloads import Batch, Metric, Workload
from tests.support.wire import ConnectionEnded, RawConnection, only

MIB = 1 << 20
RUN_TIMEOUT_S = 60
RETENTION_TIMEOUT_S = 20.0
SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "runtime error")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


@pytest.fixture(params=[()])
def server(request: pytest.FixtureRequest) -> Iterator[LimitServer]:
    """A running server, which must end without an error of a sanitizer, a leak included."""
    peer = LimitServer(options=request.param, sanitized=True)
    try:
        peer.start()
        yield peer
        code, text = peer.end(), peer.log.read_text()
        assert code == 0, text
        assert not any(word in text for word in SANITIZERS), text
    finally:
        peer.stop()


@pytest.fixture
def connection(server: LimitServer) -> Iterator[RawConnection]:
    with RawConnection.to(server.bootstrap) as opened:
        yield opened


def other_options(*options: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("server", [options], indirect=True)


def _workload(**changes: object) -> Workload:
    values: dict[str, object] = {
        "name": "test", "request_bytes": 4096, "connections": 3, "in_flight": 4,
        "partitions": 3, "metric": Metric.REQUESTS,
    }  # fmt: skip
    return Workload(**{**values, **changes})  # type: ignore[arg-type]


def test_the_load_generator_sends_and_reads_every_kind_of_frame(server: LimitServer) -> None:
    server.create_topic("t", 3, {})
    target = load.Target(bootstrap=server.bootstrap, topic="t")
    load.send(target, partitions=3, batch_bytes=4096, requests=300, records_per_batch=7)
    workloads = [
        _workload(),
        _workload(request_bytes=200, in_flight=8),
        _workload(request_bytes=MIB, connections=2),
        _workload(idempotent=True),
        _workload(batch=Batch.LZ4),
        _workload(rate=500),
        _workload(fetch=True),
        _workload(fetch=True, request_bytes=MIB),
    ]
    for workload in workloads:
        result = load.run(workload, target, seconds=0.4, warmup_seconds=0.1)
        assert result.requests > 0
    server.delete_topic("t")
    assert list(server.data_dir.iterdir()) == []


@pytest.mark.parametrize("discard", [(), ("--discard",)])
@pytest.mark.parametrize("version", [4, 12])
def test_a_reader_sees_every_record_once_per_round(
    server: LimitServer, discard: tuple[str, ...], version: int
) -> None:
    server.create_topic("rounds", 1, {})
    target = load.Target(bootstrap=server.bootstrap, topic="rounds")
    load.send(target, partitions=1, batch_bytes=1000, requests=900)
    # Ten batches per response, 90 responses per round, exactly 11 rounds.
    command = [
        str(load.EXECUTABLE), *target.arguments, "--mode", "fetch", "--connections", "1",
        "--max-bytes", "10000", "--requests", "990", "--seconds", "30",
        "--warmup-seconds", "0", "--version", str(version), *discard,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["requests"], found["records"], found["empty"]) == (990, 9900, 0)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_all_acks_are_written(server: LimitServer, connection: RawConnection, acks: int) -> None:
    limit_client.create(connection, "t")
    target = load.Target(bootstrap=server.bootstrap, topic="t")
    load.send(target, partitions=1, batch_bytes=300, requests=200, acks=acks)
    # Behind those without an answer, whose connection is another one.
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while limit_client.offset_at(connection, "t", LATEST) < 200:
        assert time.monotonic() < deadline
    batches = limit_client.split(limit_client.segment_files(server.data_dir, "t")[0])
    assert [limit_client.stamps(batch) for batch in batches] == [(n, 0) for n in range(200)]


@pytest.mark.parametrize("replication", [1, 3])
def test_a_row_of_the_benchmark_is_measured(
    monkeypatch: pytest.MonkeyPatch, replication: int
) -> None:
    """With the executable that is measured, and from the start to the removal of its data.

    It also runs rows for three nodes, with one replica.
    """
    monkeypatch.setattr(session, "FREE_DISK_BYTES_MIN", 0)  # It writes a few megabytes.
    peer = LimitServer()
    settings = Settings(pairs=2, seconds=0.2, warmup_seconds=0.1)
    told: list[str] = []
    found = startup.measure(peer, 1, told.append, idle_seconds=0.1)
    assert found is not None
    assert found.idle.resident_bytes
    assert found.idle.cpu_ms_per_s is not None
    assert found.idle.cpu_ms_per_s < 500
    peer.start()
    try:
        data_dir = peer.data_dir
        workload = _workload(name="row", idempotent=True, replication=replication)
        row = Session([peer], settings, told.append).measure(workload)
        assert row.failures == {}
        assert len(row.samples[peer.name]) == 2
        for sample in row.samples[peer.name]:
            assert sample.server_cpu_us is not None
            assert 0 < sample.server_cpu_us < 1e6
            assert sample.server_faults is not None
            assert 0 <= sample.server_faults < 1e3
        assert list(data_dir.iterdir()) == []
        assert peer.end() == 0
    finally:
        peer.stop()
    assert not data_dir.exists()


@other_options("--no-hardware-crc")
def test_the_table_accepts_what_the_load_generator_sends(server: LimitServer) -> None:
    server.create_topic("t", 1, {})
    target = load.Target(bootstrap=server.bootstrap, topic="t")
    result = load.send(target, partitions=1, batch_bytes=20_000, requests=50)
    assert result.requests == 50


@pytest.mark.parametrize("version", range(3, 10))
def test_a_batch_is_stored_and_read_byte_for_byte(
    server: LimitServer, connection: RawConnection, version: int
) -> None:
    assert limit_client.create(connection, "t", version=2 + version % 3) == 0
    # Small ones wait for others of the round, large ones are written in pieces.
    values = [[b"a", b"bc"], [b"x" * 5000], [bytes(range(256)) * 3000, b"end"], [b"last"]]
    sent = [batch_of(each) for each in values]
    bases = [limit_client.send_batch(connection, "t", batch, version) for batch in sent]
    assert bases == [(0, 0), (0, 2), (0, 3), (0, 5)]
    stored = limit_client.split(limit_client.segment_files(server.data_dir, "t")[0])
    assert [limit_client.stamps(batch) for batch in stored] == [(0, 0), (2, 0), (3, 0), (5, 0)]
    assert [*map(limit_client.without_stamps, stored)] == [*map(limit_client.without_stamps, sent)]
    found = limit_client.read(connection, limit_client.fetch_request("t", 0), version + 3)
    assert limit_client.records_of(found) == b"".join(stored)
    assert (found.error_code, found.high_watermark) == (0, 6)
    # An offset inside a batch gives the whole batch.
    found = limit_client.read(connection, limit_client.fetch_request("t", 4), version + 3)
    assert limit_client.records_of(found) == b"".join(stored[2:])


@pytest.mark.parametrize("size", [10, 10_000, 600_000])
def test_a_wrong_crc_is_answered_and_not_stored(
    server: LimitServer, connection: RawConnection, size: int
) -> None:
    limit_client.create(connection, "t")
    good = batch_of([b"g" * size])
    bad = bytearray(good)
    bad[-size // 2] ^= 1
    assert limit_client.send_batch(connection, "t", good) == (0, 0)
    assert limit_client.send_batch(connection, "t", bytes(bad)) == (
        ErrorCode.CORRUPT_MESSAGE, -1,
    )  # fmt: skip
    assert limit_client.send_batch(connection, "t", good) == (0, 1)
    stored = limit_client.split(limit_client.segment_files(server.data_dir, "t")[0])
    assert [limit_client.stamps(batch)[0] for batch in stored] == [0, 1]


def test_other_broken_batches_are_refused(connection: RawConnection) -> None:
    limit_client.create(connection, "t")
    good = batch_of([b"value"])
    wrong_count = good[:57] + (2).to_bytes(4, "big") + good[61:]
    refused = {
        ErrorCode.CORRUPT_MESSAGE: [good[:40], good[:-1]],
        ErrorCode.INVALID_RECORD: [b"", good + good, good[:16] + b"\1" + good[17:], wrong_count],
    }
    for code, batches in refused.items():
        for batch in batches:
            assert limit_client.send_batch(connection, "t", batch)[0] == code
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert limit_client.send_batch(connection, "u", good)[0] == unknown
    assert limit_client.send_batch(connection, "t", good) == (0, 0)


def test_a_full_segment_is_followed_by_another(
    server: LimitServer, connection: RawConnection
) -> None:
    assert limit_client.create(connection, "t", configs={"segment.bytes": str(MIB)}) == 0
    sent = [batch_of([bytes([number]) * 300_000, b"second"]) for number in range(8)]
    for number, batch in enumerate(sent):
        assert limit_client.send_batch(connection, "t", batch) == (0, 2 * number)
    # Three of them fit into a segment.
    files = limit_client.segment_files(server.data_dir, "t")
    assert {base: len(limit_client.split(data)) for base, data in files.items()} == {
        0: 3, 6: 3, 12: 2,
    }  # fmt: skip
    too_long = batch_of([b"x" * MIB])
    assert limit_client.send_batch(connection, "t", too_long)[0] == (
        ErrorCode.RECORD_LIST_TOO_LARGE
    )
    # A consumer reads on from one segment to the next.
    for partition, whole in ((MIB, MIB), (1, MIB), (MIB, 650_000)):
        found = limit_client.read_all(
            connection, "t", 16, partition_max_bytes=partition, max_bytes=whole
        )
        assert b"".join(found) == b"".join(files.values())


def test_small_batches_are_found_between_index_entries(
    server: LimitServer, connection: RawConnection
) -> None:
    limit_client.create(connection, "t", configs={"segment.bytes": str(MIB)})
    target = load.Target(bootstrap=server.bootstrap, topic="t")
    load.send(target, partitions=1, batch_bytes=333, requests=5000, records_per_batch=3)
    whole = b"".join(limit_client.segment_files(server.data_dir, "t").values())
    assert len(limit_client.segment_files(server.data_dir, "t")) == 2
    for offset in (*range(0, 15_000, 997), 14_999):
        asked = limit_client.fetch_request("t", offset, partition_max_bytes=5000)
        found = limit_client.records_of(limit_client.read(connection, asked))
        at = offset // 3 * 333
        assert whole[at:].startswith(found)
        assert all(len(batch) == 333 for batch in limit_client.split(found))
        left_in_segment = (3148 * 333 if at < 3148 * 333 else len(whole)) - at
        assert len(found) == min(5000, left_in_segment) // 333 * 333
    assert b"".join(limit_client.read_all(connection, "t", 15_000)) == whole


def test_pipelined_requests_are_answered_in_order(connection: RawConnection) -> None:
    limit_client.create(connection, "t", num_partitions=2)
    batches = [batch_of([b"%d" % number * size]) for number, size in enumerate((1, 9000, 50, 70))]
    for number, batch in enumerate(batches):
        # The same number of requests of each kind: `receive` checks correlation ids.
        connection.send(limit_client.produce_request("t", [(0, batch), (1, batch)]), 9)
        connection.send(limit_client.fetch_request("t", number, partitions=(1,)), 12)
        connection.send(metadata.MetadataRequest(topics=None), 9)
    for number, batch in enumerate(batches):
        produced = only(connection.receive().responses).partition_responses
        assert [(p.error_code, p.base_offset) for p in produced] == [(0, number)] * 2
        records = limit_client.records_of(only(only(connection.receive().responses).partitions))
        assert limit_client.without_stamps(records) == limit_client.without_stamps(batch)
        assert len(only(connection.receive().topics).partitions) == 2


def test_a_fetch_waits_for_enough_bytes(server: LimitServer, connection: RawConnection) -> None:
    limit_client.create(connection, "t")
    batch = batch_of([b"v" * 100])
    asked = limit_client.fetch_request("t", 0, min_bytes=2 * len(batch), max_wait_ms=30_000)
    started = time.monotonic()
    connection.send(asked, 12)
    connection.send(metadata.MetadataRequest(topics=None), 9)  # Waits behind the Fetch.
    with RawConnection.to(server.bootstrap) as producer:
        for number in range(2):
            assert limit_client.send_batch(producer, "t", batch) == (0, number)
    records = limit_client.records_of(only(only(connection.receive().responses).partitions))
    assert len(limit_client.split(records)) == 2
    assert only(connection.receive().topics).name == "t"
    assert time.monotonic() - started < 20
    # With nothing new it ends after max_wait_ms.
    started = time.monotonic()
    found = limit_client.read(connection, limit_client.fetch_request("t", 2, max_wait_ms=300))
    assert limit_client.records_of(found) == b""
    assert 0.29 <= time.monotonic() - started < 20
    # A waiting client that leaves is forgotten.
    with RawConnection.to(server.bootstrap) as leaving:
        leaving.send(limit_client.fetch_request("t", 2, max_wait_ms=30_000), 12)
        limit_client.offset_at(connection, "t", LATEST)
    limit_client.offset_at(connection, "t", LATEST)
    for number in range(2, 4):
        assert limit_client.send_batch(connection, "t", batch) == (0, number)


def test_max_bytes_is_for_the_whole_response(connection: RawConnection) -> None:
    limit_client.create(connection, "t", num_partitions=3)
    batch = batch_of([b"v" * 1000])
    for _ in range(3):
        connection.ask(limit_client.produce_request("t", [(n, batch) for n in range(3)]), 9)
    size = len(batch)

    def sizes(max_bytes: int) -> list[int]:
        asked = limit_client.fetch_request(
            "t", 0, partitions=(2, 0, 1), max_bytes=max_bytes, partition_max_bytes=2 * size + 10
        )
        parts = only(connection.ask(asked, 12).responses).partitions
        return [len(part.records or b"") for part in parts]

    assert sizes(MIB) == [2 * size, 2 * size, 2 * size]
    assert sizes(3 * size) == [2 * size, size, 0]
    # Only the first batch of a response may be longer than asked for.
    assert sizes(1) == [size, 0, 0]


def test_offsets_outside_the_log_and_sessions_are_refused(connection: RawConnection) -> None:
    limit_client.create(connection, "t")
    limit_client.send_batch(connection, "t", batch_of([b"v"]))
    for offset in (-1, 2):
        found = limit_client.read(connection, limit_client.fetch_request("t", offset))
        assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = limit_client.read(connection, limit_client.fetch_request("other", 0))
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = fetch.FetchRequest(session_id=5, session_epoch=3)
    response = connection.ask(asked, 12)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert [
        limit_client.offset_at(connection, "t", LATEST, version) for version in range(1, 6)
    ] == [1] * 5


def test_old_segments_are_deleted(server: LimitServer, connection: RawConnection) -> None:
    configs = {"segment.bytes": str(MIB), "retention.bytes": str(MIB), "file.delete.delay.ms": "0"}
    limit_client.create(connection, "t", configs=configs)
    batch = batch_of([b"v" * 500_000])
    for number in range(10):
        assert limit_client.send_batch(connection, "t", batch) == (0, number)
    deadline = time.monotonic() + RETENTION_TIMEOUT_S
    while limit_client.offset_at(connection, "t", EARLIEST) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert list(limit_client.segment_files(server.data_dir, "t")) == [6, 8]
    found = limit_client.read(connection, limit_client.fetch_request("t", 0))
    assert (found.error_code, found.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 6)
    assert len(limit_client.read_all(connection, "t", 10)) == 4


def test_a_deleted_topic_may_come_again(server: LimitServer, connection: RawConnection) -> None:
    server.create_topic("t", 2, {"file.delete.delay.ms": "60000"})
    limit_client.send_batch(connection, "t", batch_of([b"old"]))
    server.delete_topic("t")
    server.create_topic("t", 1, {})
    assert limit_client.offset_at(connection, "t", LATEST) == 0
    assert limit_client.send_batch(connection, "t", batch_of([b"new"])) == (0, 0)
    assert len(limit_client.segment_files(server.data_dir, "t")) == 1


def test_topics_that_cannot_be(connection: RawConnection) -> None:
    create = limit_client.create
    assert create(connection, "t") == 0
    assert create(connection, "t") == ErrorCode.TOPIC_ALREADY_EXISTS
    for name in ("", ".", "..", "../t", "a/b", "x" * 250):
        assert create(connection, name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(connection, "u", num_partitions=0) == ErrorCode.INVALID_PARTITIONS
    assert create(connection, "u", replication_factor=3) == ErrorCode.INVALID_REPLICATION_FACTOR
    for value in ("x", "1000", "", str(1 << 40)):
        assert create(connection, "u", configs={"segment.bytes": value}) == (
            ErrorCode.INVALID_CONFIG
        )
    response = connection.ask(metadata.MetadataRequest(topics=None), 9)
    assert [topic.name for topic in response.topics] == ["t"]


def test_producer_ids_differ(connection: RawConnection) -> None:
    asked = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    )
    ids = [connection.ask(asked, version).producer_id for version in (0, 1, 1)]
    assert ids == [0, 1, 2]
    asked.transactional_id = "transactions"
    assert connection.ask(asked, 1).error_code == ErrorCode.INVALID_REQUEST


def test_an_application_sends_and_reads(server: LimitServer) -> None:
    quiet = {"bootstrap.servers": server.bootstrap, "log_level": 2}
    producer = Producer({**quiet, "enable.idempotence": True, "compression.type": "zstd"})
    for number in range(500):
        producer.produce("made-by-metadata", b"value %d" % number, partition=0)
    assert producer.flush(RUN_TIMEOUT_S) == 0
    consumer = Consumer({**quiet, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("made-by-metadata", 0, 0)])
        found = consumer.consume(500, timeout=RUN_TIMEOUT_S)
    finally:
        consumer.close()
    assert [message.value() for message in found] == [b"value %d" % n for n in range(500)]


@other_options("--connections", "3")
def test_connections_have_a_limit(server: LimitServer) -> None:
    with ExitStack() as stack:
        connections = []
        for _ in range(3):
            connections.append(stack.enter_context(RawConnection.to(server.bootstrap)))
            # With its answer, the end of the fixture's first connection was seen, too.
            connections[-1].ask(metadata.MetadataRequest(topics=None), 9)
        with RawConnection.to(server.bootstrap) as refused:
            refused.wait_for_close()
        for each in connections:
            each.ask(metadata.MetadataRequest(topics=None), 9)
    assert "more than 3 connections" in server.log.read_text()


def test_a_refused_batch_with_acks_0_closes_the_connection(
    server: LimitServer, connection: RawConnection
) -> None:
    asked = limit_client.produce_request("unknown", [(0, batch_of([b"v"]))], acks=0)
    connection.send(asked, 9, answered=False)
    with pytest.raises(ConnectionEnded):
        connection.receive_frame()
    assert "acks=0 was refused" in server.log.read_text()
