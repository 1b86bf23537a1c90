"""Limits of an instance as real clients meet them: storage, and traffic of a cluster of nodes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.produce_load import RECORD, Load
from tests.cluster.runner import MODES, Up, run
from tests.conformance.topics import unique_name

PATIENCE_S = 30.0
MIB = 1 << 20
STORAGE_LIMIT = 4 * MIB
RATE_LIMIT = 3_000_000
WARM_UP_S = 6.0
MEASURED_S = 6.0

SETTINGS = ("partition.retention_check_interval_ms=300",)


@pytest.fixture(params=["embedded", pytest.param("combined3", marks=pytest.mark.full)])
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    """A cluster whose retention runs often."""
    flags = tuple(part for setting in SETTINGS for part in ("--set", setting))
    made = Up(request.param, tmp_path, extra=flags)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_storage_limit(up: Up) -> None:
    topic = _create_topic(up, configs={"segment.bytes": str(MIB)})
    _set_limits(up, "--storage-bytes", str(STORAGE_LIMIT))
    with ReadAlong(up.bootstrap, topic) as reading:
        stored = _fill(up, topic)
        # What one node appends it counts itself, so it stops at the limit, give or take a request.
        assert STORAGE_LIMIT - MIB < sum(map(len, stored)) < STORAGE_LIMIT + MIB
        error = _produce_one(up, topic)
        assert error is not None
        assert error.code() == KafkaError.POLICY_VIOLATION
        # Others are served all the same: what is stored can be read, and offsets can be committed.
        _until(lambda: len(reading.values) >= len(stored))
    assert reading.values == stored
    assert _consume(up, topic) == stored

    if up.mode != "embedded":
        os.kill(up.pids()["quota"], signal.SIGKILL)  # The supervisor starts another one.
        for _ in range(8):
            assert _code_of(_produce_one(up, topic)) == KafkaError.POLICY_VIOLATION
            time.sleep(0.5)

    up.stop()
    up.start()
    assert _code_of(_produce_one(up, topic)) == KafkaError.POLICY_VIOLATION

    assert _consume(up, topic) == stored
    _set_limits(up, "--storage-bytes", str(2 * STORAGE_LIMIT))
    _until(lambda: _produce_one(up, topic) is None)
    assert _consume(up, topic) == [*stored, b"one"]

    _set_limits(up, "--storage-bytes", str(STORAGE_LIMIT))
    _until(lambda: _code_of(_produce_one(up, topic)) == KafkaError.POLICY_VIOLATION)
    _delete_records(up, topic)
    _until(lambda: _produce_one(up, topic) is None)

    _fill(up, topic)
    admin = _admin(up)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    other = _create_topic(up)
    _until(lambda: _produce_one(up, other) is None)


def test_a_transaction_ends_at_the_storage_limit(up: Up) -> None:
    topic = _create_topic(up)
    settings = {"bootstrap.servers": up.bootstrap, "transactional.id": unique_name("t")}
    with_transactions = Producer(settings)
    with_transactions.init_transactions(PATIENCE_S)
    with_transactions.begin_transaction()
    with_transactions.produce(topic, b"in a transaction")
    assert with_transactions.flush(PATIENCE_S) == 0
    _set_limits(up, "--storage-bytes", "1")
    _until(lambda: _code_of(_produce_one(up, topic)) == KafkaError.POLICY_VIOLATION)
    with_transactions.commit_transaction(PATIENCE_S)
    assert b"in a transaction" in _consume(up, topic)


@pytest.mark.parametrize("up", ["combined3"], indirect=True)
def test_produce_limit_of_a_cluster_with_one_busy_partition(up: Up) -> None:
    """One of three nodes gets nearly all of the limit, and never more; nobody notices when the quota
    service dies.
    """
    topic = _create_topic(up, partitions=3, copies=1)
    _set_limits(up, "--produce-bytes-per-second", str(RATE_LIMIT))
    with Load(up.bootstrap, topic, partition=0) as load:
        time.sleep(WARM_UP_S)
        rate = load.rate(MEASURED_S)
        assert 0.9 * RATE_LIMIT <= rate <= 1.05 * RATE_LIMIT
        os.kill(up.pids()["quota"], signal.SIGKILL)
        rate = load.rate(MEASURED_S)
        assert 0.3 * RATE_LIMIT <= rate <= 1.05 * RATE_LIMIT
    assert load.errors == []


@pytest.mark.full
@pytest.mark.parametrize("up", ["combined3", "nodes3"], indirect=True)
def test_the_limit_follows_the_busy_partition(up: Up) -> None:
    topic = _create_topic(up, partitions=3, copies=1)
    _set_limits(up, "--produce-bytes-per-second", str(RATE_LIMIT))
    for partition in range(3):
        with Load(up.bootstrap, topic, partition=partition) as load:
            time.sleep(WARM_UP_S)
            _assert_all_is_used(load)
        assert load.errors == []


def _assert_all_is_used(load: Load) -> None:
    """In some of three windows 95 % of the limit, in none more than the limit and 2 %.

    Other tests on the same machine may keep the clients from sending as much for seconds.
    """
    rates: list[float] = []
    while len(rates) < 3 and max(rates, default=0.0) < 0.95 * RATE_LIMIT:
        rates.append(load.rate(2 * MEASURED_S))
        assert rates[-1] <= 1.02 * RATE_LIMIT
    assert max(rates) >= 0.95 * RATE_LIMIT, rates


def _create_topic(
    up: Up, partitions: int = 1, configs: dict[str, str] | None = None, copies: int = 3
) -> str:
    name = unique_name("limited")
    copies = min(copies, MODES[up.mode][0])
    topic = NewTopic(name, partitions, copies, config=configs or {})
    admin = _admin(up)  # It must outlive its requests.
    admin.create_topics([topic])[name].result(PATIENCE_S)
    return name


def _admin(up: Up) -> AdminClient:
    return AdminClient({"bootstrap.servers": up.bootstrap})


def _set_limits(up: Up, *flags: str) -> None:
    done = run("quota", "set", *flags, "--data-dir", str(up.data_dir))
    assert done.returncode == 0, done.stderr


def _fill(up: Up, topic: str) -> list[bytes]:
    """Produces as fast as it goes until it is refused; the values that are stored, in order."""
    outcomes: list[tuple[bytes, KafkaError | None]] = []
    producer = Producer({"bootstrap.servers": up.bootstrap, "linger.ms": 5})

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append((message.value() or b"", error))

    deadline = time.monotonic() + PATIENCE_S
    number = 0
    while all(error is None for _, error in outcomes[-100:]) and time.monotonic() < deadline:
        try:
            producer.produce(topic, b"%010d" % number + RECORD[10:], on_delivery=delivered)
            number += 1
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
        if len(outcomes) % 50 == 0:
            producer.flush(0.05)
    assert producer.flush(PATIENCE_S) == 0
    codes = {error.code() for _, error in outcomes if error is not None}
    assert codes == {KafkaError.POLICY_VIOLATION}
    return sorted(value for value, error in outcomes if error is None)


class ReadAlong:
    """Reads a topic's only partition from its begin, in a thread, as long as the block lasts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[bytes | None] = []
        self._settings = {"bootstrap.servers": bootstrap, "group.id": unique_name("along")}
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        try:
            consumer.assign([TopicPartition(self._topic, 0, 0)])
            while not self._over.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.values.append(message.value())
        finally:
            consumer.close()


def _produce_one(up: Up, topic: str) -> KafkaError | None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": up.bootstrap})

    def delivered(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(error)

    producer.produce(topic, b"one", on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    return outcomes[0]


def _code_of(error: KafkaError | None) -> int | None:
    return None if error is None else error.code()


def _consume(up: Up, topic: str) -> list[bytes | None]:
    """Reads a topic to its end in a new group, and commits; the values."""
    consumer = Consumer(
        {
            "bootstrap.servers": up.bootstrap,
            "group.id": unique_name("readers"),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        values = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise KafkaException(message.error())
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def _delete_records(up: Up, topic: str) -> None:
    end = TopicPartition(topic, 0, -1)
    admin = _admin(up)
    admin.delete_records([end])[end].result(PATIENCE_S)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
