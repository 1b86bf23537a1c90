"""Produce that waits for its instance's limit, while its leaders are killed, stopped and fenced: each
acknowledged record is there once, and each producer's are in order.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.cluster.quota_cluster import QuotaCluster
from tests.cluster.runner import Up, run
from tests.cluster.traffic import read_all
from tests.robustness.faults.client_settings import PATIENT, quiet_logger
from tests.support.cluster_view import is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic

LIMIT = 200_000
"""Bytes per second. What the producers have in flight is many times of it."""
PRODUCERS = 4
PARTITIONS = 2
RECORD_BYTES = 4_000
SESSION_S = 6.0
WHOLE_S = 60.0
FLUSH_S = 120.0


class NumberedProducers:
    """Idempotent producers that write numbers, each in threads of its own, as fast as they may."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[KafkaError] = []
        self.acknowledged: list[tuple[int, int, int]] = []
        """(producer, partition, number), in the order of the acknowledgements."""
        self._bootstrap, self._topic = bootstrap, topic
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(producer,))
            for producer in range(PRODUCERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def await_more(self, count: int, timeout_s: float = 60.0) -> None:
        """Returns when so many more have been acknowledged."""
        wanted, ends_s = len(self.acknowledged) + count, time.monotonic() + timeout_s
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < ends_s, f"no {count} records within {timeout_s} s"
            time.sleep(0.1)

    def _produce(self, producer: int) -> None:
        client = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 32_768,
                "queue.buffering.max.kbytes": 512,
                "message.timeout.ms": 120_000,
                **PATIENT,
            },
            logger=quiet_logger(),
        )
        numbers = [0] * PARTITIONS
        while not self._over.is_set():
            for partition, number in enumerate(numbers):
                value = f"{producer}:{partition}:{number}:".ljust(RECORD_BYTES, "x")
                try:
                    client.produce(self._topic, value, partition=partition, on_delivery=self._done)
                except BufferError:
                    client.poll(0.05)
                    continue
                numbers[partition] += 1
            client.poll(0)
        assert client.flush(FLUSH_S) == 0

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        value = message.value()
        assert isinstance(value, bytes)
        self.acknowledged.append(_place_of(value))


def _place_of(value: bytes) -> tuple[int, int, int]:
    producer, partition, number, _ = value.split(b":")
    return int(producer), int(partition), int(number)


@contextmanager
def producing(bootstrap: str, *, replicas: int) -> Iterator[tuple[NumberedProducers, str]]:
    """Producers over the limit; at the end their topic is read and compared with what they heard."""
    configs = {"min.insync.replicas": str(min(2, replicas))}
    topic = make_replicated_topic(
        bootstrap, "held", partitions=PARTITIONS, replication_factor=replicas, configs=configs
    )
    with NumberedProducers(bootstrap, topic) as producers:
        producers.await_more(20)
        yield producers, topic
    assert producers.errors == []
    stored = [_place_of(value) for value in read_all(bootstrap, topic, PARTITIONS)]
    twice = {place: times for place, times in Counter(stored).items() if times > 1}
    assert twice == {}
    assert set(producers.acknowledged) == set(stored)
    for producer in range(PRODUCERS):
        for partition in range(PARTITIONS):
            numbers = [n for one, part, n in stored if (one, part) == (producer, partition)]
            assert numbers == list(range(len(numbers))), f"producer {producer} in {partition}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.full)])
def test_a_broker_that_is_killed(tmp_path: Path, kills: int) -> None:
    up = Up("embedded", tmp_path)
    up.start()
    try:
        flag = ("--produce-bytes-per-second", str(LIMIT))
        done = run("quota", "set", *flag, "--data-dir", str(up.data_dir))
        assert done.returncode == 0, done.stderr
        with producing(up.bootstrap, replicas=1) as (producers, _):
            for _ in range(kills):
                producers.await_more(100)
                up.kill()
                up.start()
            producers.await_more(50)
    finally:
        up.stop()


def _stop(cluster: QuotaCluster, leader: int) -> None:
    """It hands over what it leads."""
    cluster.nodes[leader].stop()
    cluster.nodes[leader].start()


def _kill(cluster: QuotaCluster, leader: int) -> None:
    cluster.nodes[leader].kill()
    time.sleep(1)
    cluster.nodes[leader].start()


def _pause(cluster: QuotaCluster, leader: int) -> None:
    """It is fenced, and resumes with all that waits there."""
    os.kill(cluster.nodes[leader].pid, signal.SIGSTOP)
    try:
        time.sleep(SESSION_S + 2)
    finally:
        os.kill(cluster.nodes[leader].pid, signal.SIGCONT)


Fault = Callable[[QuotaCluster, int], None]


@pytest.mark.full
@pytest.mark.timeout(420)
@pytest.mark.parametrize("faults", [(_stop, _kill, _pause) * 2], ids=["again-and-again"])
def test_leaders_that_end_and_are_fenced(tmp_path: Path, faults: tuple[Fault, ...]) -> None:
    with QuotaCluster(tmp_path, nodes=3) as cluster:
        cluster.set_limit("--produce-bytes-per-second", LIMIT)
        with producing(cluster.bootstrap, replicas=3) as (producers, topic):
            for number, fault in enumerate(faults):
                partition = number % PARTITIONS
                fault(cluster, view(cluster.bootstrap, topic)[partition].leader)
                wait_for_view(
                    cluster.bootstrap, topic, is_whole, timeout_s=WHOLE_S, what="full ISRs"
                )
                producers.await_more(50)
