"""A partition node ends and comes back while clients write: the gateway holds what is for it.

With one replica the same node leads again, so nothing need be refused in between. Only a batch of
no idempotent producer that was on the wire when the node was killed gets an error: nobody knows
what became of it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.runner import Up
from tests.cluster.traffic import NumberedProducer, read_all
from tests.conformance.protocol.requests import PRODUCE_VERSION, batch, produce_request
from tests.conformance.topics import make_topic
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

NODE = 2
PARTITIONS = 3
TIMEOUT_MS = 30_000
IN_FLIGHT = 4


class RawProducer(threading.Thread):
    """Writes "0", "1", ... to one partition, a few requests at a time and none twice."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        host, _, port = bootstrap.rpartition(":")
        self._connection = RawConnection(host, int(port), timeout_s=TIMEOUT_MS / 1000 + 5)
        self._topic = topic
        self._partition = partition
        self._stopping = threading.Event()
        self._sent_s: deque[float] = deque()
        self.answers: list[tuple[float, float, int]] = []
        """(sent at, answered at, error code) by number, in seconds of the monotonic clock."""

    def run(self) -> None:
        number = 0
        with self._connection:
            while not self._stopping.is_set() or self._sent_s:
                if not self._stopping.is_set():
                    value = str(number).encode()
                    request: Any = produce_request(
                        self._topic, {self._partition: batch([value])}, acks=1
                    )
                    request.timeout_ms = TIMEOUT_MS
                    self._sent_s.append(time.monotonic())
                    self._connection.send(request, PRODUCE_VERSION)
                    number += 1
                    time.sleep(0.002)
                if len(self._sent_s) >= IN_FLIGHT or self._stopping.is_set():
                    self._receive()

    def _receive(self) -> None:
        reply = self._connection.receive()
        part = only(only(reply.responses).partition_responses)
        self.answers.append((self._sent_s.popleft(), time.monotonic(), part.error_code))

    def stop(self) -> None:
        self._stopping.set()
        self.join(TIMEOUT_MS / 1000 + 10)
        assert not self.is_alive(), "a request is not answered"


@pytest.mark.parametrize("up", ["nodes3"], indirect=True)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_produces_are_held_until_the_node_is_back(up: Up, sign: signal.Signals):
    topics = [make_topic(up.bootstrap, name, partitions=PARTITIONS) for name in ("raw", "orders")]
    partitions = [_partition_of(up.bootstrap, topic) for topic in topics]
    raw = RawProducer(up.bootstrap, topics[0], partitions[0])
    raw.start()
    producer = NumberedProducer(up.bootstrap, topics[1], partition=partitions[1])
    _send(producer, 300)

    before = up.pids()[f"partition-{NODE}"]
    ended_s = time.monotonic()
    os.kill(before, sign)
    _send(producer, 1_000)
    wait_until(
        lambda: up.pids().get(f"partition-{NODE}", before) != before,
        timeout_s=15,
        what=f"a new process for node {NODE}",
    )
    _send(producer, 300)
    producer.flush()
    raw.stop()

    assert not producer.errors
    found = read_all(up.bootstrap, topics[1], PARTITIONS)
    assert found == [str(n).encode() for n in range(1_600)], "each once, and in order"
    assert producer.retries == 0, "the gateway did it all"

    refused = {n: code for n, (_, _, code) in enumerate(raw.answers) if code}
    assert set(refused.values()) <= {ErrorCode.REQUEST_TIMED_OUT}
    assert all(raw.answers[n][0] <= ended_s + 0.1 for n in refused), "they were on the wire"
    numbers = [int(value) for value in read_all(up.bootstrap, topics[0], PARTITIONS)]
    assert numbers == sorted(set(numbers)), "none twice, and in order"
    assert set(range(len(raw.answers))) - set(numbers) <= refused.keys(), "none is lost"
    assert max(done - sent for sent, done, _ in raw.answers) > 0.2, "some were held"
    assert raw.answers[-1][0] > ended_s, "the node served again"


def _send(producer: NumberedProducer, count: int) -> None:
    """At a moderate rate, so that there are always some under way."""
    for _ in range(count // 10):
        producer.send(10)
        time.sleep(0.01)


def _partition_of(bootstrap: str, topic: str) -> int:
    """The partition that the node leads."""
    partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10)
    found = partitions.topics[topic].partitions.values()
    return only([p.id for p in found if p.leader == NODE])
