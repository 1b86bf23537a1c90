"""The load generator against a broker that checks its frames, and against Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.bench import load
from tests.bench.fake_broker import FakeBroker, metadata_of
from tests.bench.frame_server import FrameServer
from tests.bench.workloads import Batch, Metric, Workload, all_workloads, select
from tests.support.kafka_peer import KafkaPeer

RUN_TIMEOUT_S = 60


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


def generate(address: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(load.EXECUTABLE), "--bootstrap", address, "--topic", "t", *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )


PRODUCE = ("--mode", "produce", "--no-metadata", "--seconds", "30", "--warmup-seconds", "0")


@pytest.mark.parametrize(
    ("batch_bytes", "records", "per_request"), [(200, 1, 1), (1085, 3, 5), (16384, 16, 2)]
)
def test_idempotent_frames_carry_valid_crcs_and_gapless_sequences(
    batch_bytes: int, records: int, per_request: int
) -> None:
    with FakeBroker() as broker:
        done = generate(
            broker.address, *PRODUCE, "--partitions", "5", "--connections", "3",
            "--in-flight", "4", "--requests", "120", "--idempotent",
            "--producer-id-base", "900", "--batch-bytes", str(batch_bytes),
            "--records-per-batch", str(records), "--partitions-per-request", str(per_request),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    assert len(broker.produced) == 120 * per_request
    sequences: dict[tuple[int, int], list[int]] = defaultdict(list)
    for batch in broker.produced:
        assert (batch.size, batch.records) == (batch_bytes, records)
        sequences[batch.producer_id, batch.partition].append(batch.base_sequence)
    assert {pid for pid, _ in sequences} == {900, 901, 902}
    assert {partition for _, partition in sequences} == set(range(5))
    for each in sequences.values():
        assert each == [i * records for i in range(len(each))]


def test_without_idempotence_there_is_no_producer() -> None:
    with FakeBroker() as broker:
        done = generate(broker.address, *PRODUCE, "--partitions", "2", "--requests", "40")
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    assert {(b.producer_id, b.base_sequence) for b in broker.produced} == {(-1, -1)}


def test_every_batch_goes_to_the_leader_that_metadata_names() -> None:
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(FakeBroker()) for _ in range(4)]
        leaders = [0, 1, 2, 0, 1, 2, 2]
        brokers[0].metadata = metadata_of("t", brokers, leaders)
        done = generate(
            brokers[0].address, "--mode", "produce", "--seconds", "30", "--warmup-seconds", "0",
            "--connections", "6", "--in-flight", "4", "--requests", "600", "--acks", "-1",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [broker.problems for broker in brokers] == [[]] * 4
    led = [{p for p, leader in enumerate(leaders) if leader == node} for node in range(4)]
    assert [{batch.partition for batch in broker.produced} for broker in brokers] == led
    # Two connections per leader, each with a sixth of the requests; none for the idle broker.
    assert [len(broker.produced) for broker in brokers] == [200, 200, 200, 0]
    assert {batch.acks for broker in brokers for batch in broker.produced} == {-1}
    found = json.loads(done.stdout)
    assert (found["brokers"], found["partitions"], found["requests"]) == (3, 7, 600)


def test_requests_are_divided_exactly() -> None:
    with FakeBroker() as broker:
        done = generate(
            broker.address, *PRODUCE, "--partitions", "3", "--connections", "3", "--requests", "11"
        )
    assert done.returncode == 0, done.stderr
    shares = Counter(batch.connection for batch in broker.produced)
    assert sorted(shares.values()) == [3, 4, 4]
    assert {batch.acks for batch in broker.produced} == {1}


def test_errors_are_counted_by_code() -> None:
    with FakeBroker(error_of=lambda partition: 6 if partition == 1 else 0) as broker:
        done = generate(broker.address, *PRODUCE, "--partitions", "4", "--requests", "40")
    refused = sum(batch.partition == 1 for batch in broker.produced)
    assert 0 < refused < 40
    assert done.returncode == load.ERRORS_IN_RESPONSES
    assert json.loads(done.stdout)["errors"] == {"6": refused}
    assert "error 6 in partition 1" in done.stderr


def test_a_wrong_correlation_id_ends_the_run() -> None:
    with FakeBroker(correlation_shift=1) as broker:
        done = generate(broker.address, *PRODUCE, "--partitions", "1", "--requests", "5")
    assert done.returncode == 1
    assert "correlation id 1 where 0 was next" in done.stderr


@pytest.mark.slow
def test_pacing_keeps_the_rate() -> None:
    with FakeBroker() as broker:
        done = generate(
            broker.address, "--mode", "produce", "--no-metadata", "--partitions", "1",
            "--rate", "200", "--seconds", "2", "--warmup-seconds", "0", "--in-flight", "16",
        )  # fmt: skip
    found = json.loads(done.stdout)
    assert 360 <= found["requests"] <= 401
    assert found["latency_us"]["p50"] > 0


def test_a_closed_port_gives_one_clear_line() -> None:
    done = generate("127.0.0.1:1", *PRODUCE, "--partitions", "1")
    assert done.returncode == 1
    assert done.stderr == "loadgen: cannot connect to 127.0.0.1:1: Connection refused\n"


def test_rows_have_distinct_names_and_can_be_selected() -> None:
    names = [row.name for row in all_workloads()]
    assert len(names) == len(set(names))
    assert {row.partitions for row in all_workloads()} == {1, 12, 1000}
    assert [row.name for row in select(["fetch-1m*/p12/p*"])] == ["fetch-1m-4x1/p12/plain"]
    with pytest.raises(ValueError, match="no row is named like"):
        select(["nothing"])


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaPeer]:
    with KafkaPeer() as peer:
        yield peer


def _workload(**changes: object) -> Workload:
    values: dict[str, object] = {
        "name": "test", "request_bytes": 4096, "connections": 3, "in_flight": 4,
        "partitions": 3, "metric": Metric.REQUESTS,
    }  # fmt: skip
    return Workload(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_kafka_accepts_and_returns_every_kind_of_frame(kafka: KafkaPeer) -> None:
    kafka.create_topic("t", 3)
    target = load.Target(bootstrap=kafka.bootstrap, topic="t")
    load.send(target, partitions=3, batch_bytes=4096, requests=300, wait_s=30)
    workloads = [
        _workload(),
        _workload(idempotent=True),
        _workload(batch=Batch.LZ4),
        _workload(batch=Batch.LZ4, idempotent=True),
        _workload(rate=500),
        _workload(fetch=True),
    ]
    for workload in workloads:
        result = load.run(workload, target, seconds=0.5, warmup_seconds=0.1)
        assert result.requests > 0


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("discard", [(), ("--discard",)])
def test_a_reader_sees_every_record_once_per_round(
    kafka: KafkaPeer, discard: tuple[str, ...]
) -> None:
    topic = f"rounds{len(discard)}"
    kafka.create_topic(topic, 1)
    target = load.Target(bootstrap=kafka.bootstrap, topic=topic)
    load.send(target, partitions=1, batch_bytes=1000, requests=900, wait_s=30)
    # Ten batches per response, 90 responses per round, exactly 11 rounds.
    command = [
        str(load.EXECUTABLE), *target.arguments, "--mode", "fetch", "--connections", "1",
        "--max-bytes", "10000", "--requests", "990", "--seconds", "30",
        "--warmup-seconds", "0", *discard,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["requests"] == 990
    assert found["records"] == 9900
    assert found["empty"] == 0


def test_it_logs_in_on_each_connection_before_anything_else() -> None:
    seen: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)

    def answer(frame: bytes, connection: int) -> bytes:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        seen[connection].append((key, version, frame[17:] if key in {17, 36} else b""))
        if key == 17:
            return struct.pack(">iihi", 10, correlation, 0, 0)
        if key == 36:
            return struct.pack(">iihhi", 12, correlation, 0, -1, 0)
        return broker._answer(frame, connection)

    with FakeBroker() as broker, FrameServer(answer) as server:
        options = ("--partitions", "2", "--connections", "2", "--requests", "4")
        done = generate(server.address, *PRODUCE, *options, "--sasl-plain", "me:a:b")
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    handshake, login = (17, 1, b"\x00\x05PLAIN"), (36, 0, b"\x00\x00\x00\x07\x00me\x00a:b")
    assert len(seen) == 2
    for each in seen.values():
        assert each == [handshake, login, (0, 9, b""), (0, 9, b"")]


def test_a_refused_login_ends_it() -> None:
    with FrameServer(lambda frame, _: struct.pack(">i4shi", 10, frame[4:8], 33, 0)) as server:
        done = generate(server.address, *PRODUCE, "--partitions", "1", "--sasl-plain", "me:x")
    assert done.returncode == 1
    assert "SaslHandshake: error 33" in done.stderr
