"""Transactions of the load generator: against a broker that checks its frames, ours, and Apache Kafka."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.bench import load
from tests.bench.fake_coordinator import FakeCoordinator, Producer
from tests.bench.peer import Peer
from tests.bench.peers import make_peer
from tests.bench.workloads import Metric, Transactions, Workload

RUN_TIMEOUT_S = 60
TRANSACT = ("--mode", "transact", "--no-metadata", "--seconds", "30", "--warmup-seconds", "0")
SMALL = Transactions(records=100, record_bytes=200)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


def generate(address: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(load.EXECUTABLE), "--bootstrap", address, "--topic", "t", *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )


def test_each_transaction_has_its_records_in_batches_of_javas_size() -> None:
    with FakeCoordinator() as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "12", "--connections", "3",
            "--in-flight", "5", "--requests", "30",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    assert Counter(each.transactional_id for each in broker.ended) == {
        "t-0": 10, "t-1": 10, "t-2": 10,
    }  # fmt: skip
    for each in broker.ended:
        assert each.committed
        assert each.records == 100
        # A batch of at most 16 384 bytes and one of the rest, in two partitions.
        (first,), (second,) = each.batches.values()
        sizes = sorted([first[2], second[2]])
        assert 16384 - 210 < sizes[1] <= 16384
        assert 100 * 200 < sum(sizes) <= 100 * 210 + 2 * 61
    assert {p for each in broker.ended for p in each.batches} == set(range(12))
    found = json.loads(done.stdout)
    assert (found["requests"], found["records"], found["retries"]) == (30, 3000, 0)


def test_a_large_record_has_a_batch_of_its_own_and_partitions_have_gapless_sequences() -> None:
    with FakeCoordinator() as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "3", "--connections", "2", "--in-flight", "5",
            "--requests", "6", "--record-bytes", "16384", "--transaction-records", "20",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert broker.problems == []  # The broker looks at sequences.
    assert len(broker.ended) == 6
    for each in broker.ended:
        assert sorted(len(batches) for batches in each.batches.values()) == [6, 7, 7]
        assert {(records, size) for batches in each.batches.values()
                for _, records, size in batches} == {(1, 16456)}  # fmt: skip


def test_the_next_transaction_has_the_id_and_epoch_that_the_end_answered() -> None:
    with FakeCoordinator() as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "1", "--connections", "1", "--requests", "7"
        )
    assert done.returncode == 0, done.stderr
    assert broker.problems == []  # The broker looks at ids and epochs.
    assert (broker.producers["t-0"].producer_id, broker.producers["t-0"].epoch) == (7200, 1)


def test_some_are_aborted_and_do_not_count_as_records() -> None:
    with FakeCoordinator() as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "2", "--connections", "2", "--requests", "16",
            "--abort-every", "4",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("t-0", "t-1"):
        ends = [each.committed for each in broker.ended if each.transactional_id == name]
        assert ends == [True, True, True, False] * 2
    found = json.loads(done.stdout)
    assert (found["requests"], found["records"]) == (16, 1200)


def test_what_comes_too_early_goes_again_in_its_order() -> None:
    """The first request is refused, and those on their way behind it, because of their sequences."""

    def refuse(producer: Producer) -> int:
        if producer.requests == 1:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if producer.requests in {2, 3} else 0

    with FakeCoordinator(refuse=refuse) as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "2", "--connections", "1", "--in-flight", "3",
            "--requests", "5", "--record-bytes", "16384", "--transaction-records", "11",
            "--retry-backoff-ms", "1",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    assert [each.records for each in broker.ended] == [11] * 5
    found = json.loads(done.stdout)
    assert (found["retries"], found["errors"]) == (15, {})


def test_an_end_that_comes_too_early_goes_again_and_its_wait_is_latency() -> None:
    ends: Counter[int] = Counter()

    def refuse(producer: Producer) -> int:
        ends[producer.epoch] += 1
        return ErrorCode.CONCURRENT_TRANSACTIONS if ends[producer.epoch] == 1 else 0

    with FakeCoordinator(refuse_end=refuse) as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "1", "--connections", "1", "--requests", "3",
            "--retry-backoff-ms", "40",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (len(broker.ended), broker.end_requests) == (3, 6)
    found = json.loads(done.stdout)
    assert found["latency_us"]["p50"] > 39_000
    # Often in the same bucket of the histogram, which has 262 us here.
    assert found["transaction_us"]["p50"] >= found["latency_us"]["p50"]
    assert found["retries"] == 3


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_is_away_is_asked_again(code: int) -> None:
    ends: Counter[int] = Counter()

    def refuse(producer: Producer) -> int:
        ends[producer.epoch] += 1
        return code if ends[producer.epoch] == 1 else 0

    with FakeCoordinator(refuse_end=refuse) as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "1", "--connections", "1", "--requests", "2",
            "--retry-backoff-ms", "1",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (len(broker.ended), broker.end_requests) == (2, 4)


def test_a_transaction_that_cannot_be_ended_ends_the_run() -> None:
    with FakeCoordinator(refuse_end=lambda _: ErrorCode.INVALID_TXN_STATE) as broker:
        done = generate(broker.address, *TRANSACT, "--partitions", "1", "--connections", "1")
    assert done.returncode == 1
    assert done.stderr == "loadgen: EndTxn of t-0: error 48\n"


def test_other_errors_are_counted_by_code() -> None:
    with FakeCoordinator(refuse=lambda _: ErrorCode.INVALID_PRODUCER_EPOCH) as broker:
        done = generate(
            broker.address, *TRANSACT, "--partitions", "1", "--connections", "1", "--requests", "2"
        )
    assert done.returncode == load.ERRORS_IN_RESPONSES
    # Two batches of each, for one partition, so in a request of their own.
    assert json.loads(done.stdout)["errors"] == {"47": 4}


def test_brokers_without_transaction_version_2_are_not_compared() -> None:
    with FakeCoordinator(level=1) as broker:
        done = generate(broker.address, *TRANSACT, "--partitions", "1", "--connections", "1")
    assert done.returncode == 1
    assert done.stderr == "loadgen: the broker has finalized transaction.version 1, not 2\n"


# ---- real brokers ----


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.full])],
)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    made = make_peer(request.param)
    made.start()
    yield made
    made.stop()


def _target(peer: Peer, topic: str, partitions: int) -> load.Target:
    peer.create_topic(topic, partitions, {})
    target = load.Target(bootstrap=peer.bootstrap, topic=topic)
    load.send(target, partitions=partitions, batch_bytes=500, requests=partitions, wait_s=30)
    return target


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("producers", [1, 6])
def test_a_broker_commits_every_transaction(peer: Peer, producers: int) -> None:
    workload = Workload(
        name="test", transactions=SMALL, request_bytes=0, connections=producers, in_flight=5,
        partitions=3, metric=Metric.TRANSACTIONS,
    )  # fmt: skip
    target = _target(peer, f"commits-{producers}", 3)
    for _ in range(2):  # The second finds the ids of the first.
        result = load.run(workload, target, seconds=0.5, warmup_seconds=0.1)
        # What has begun is ended, however long that takes on a busy machine.
        assert sum(result.per_second) >= producers
        assert result.value(workload.metric) == result.requests_per_s


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("discard", [(), ("--discard",)])
def test_a_reader_of_committed_records_gets_to_the_last_stable_offset_and_over_what_was_aborted(
    peer: Peer, discard: tuple[str, ...]
) -> None:
    topic = f"committed{len(discard)}"
    target = _target(peer, topic, 1)
    count = 8 * load.PREPARING_PRODUCERS
    prepared = load.send_transactions(
        target, SMALL, partitions=1, total_bytes=count * 100 * 200, in_flight=5
    )
    assert prepared.requests == count
    # The last markers may be on their way: a round ends where they are not.
    command = [
        str(load.EXECUTABLE), *target.arguments, "--mode", "fetch", "--read-committed",
        "--connections", "1", "--requests", "20000", "--seconds", "1", "--warmup-seconds", "0.5",
        "--max-bytes", "100000000", *discard,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # All of a round in one response: the first batch, the transactions, and a marker for each.
    assert found["records"] == found["requests"] * (1 + count * 101)
