"""A partition node is away for a while and clients write: the gateway holds its batches.

With one replica the same node leads again, so no batch need be refused in between. Only a batch of a
producer that is not idempotent, on the wire when the node died, gets an error, as its outcome is
unknown. A node that is stopped leaves no outcome unknown.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from functools import partial
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.runner import Up
from tests.cluster.traffic import NumberedProducer, read_all
from tests.conformance.protocol.requests import (
    PRODUCE_VERSION,
    batch,
    init_producer,
    produce_request,
)
from tests.conformance.topics import make_topic
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

NODE = 2
PARTITIONS = 3
TIMEOUT_MS = 30_000
IN_FLIGHT = 4
PAUSE_S = 9.0
"""Longer than a node's session: the node is fenced while its connections are open."""


class Answer(NamedTuple):
    """The answer of one request; times in seconds, `sent_s` on the monotonic clock."""

    sent_s: float
    took_s: float
    error_code: int


class RawProducer(threading.Thread):
    """Writes "0", "1", ... to one partition, with a few requests in flight and without retries.

    So its answers show all errors that clients would see.
    """

    def __init__(
        self, bootstrap: str, topic: str, partition: int, *, idempotent: bool, acks: int = 1
    ) -> None:
        super().__init__(daemon=True)
        host, _, port = bootstrap.rpartition(":")
        self._connection = RawConnection(host, int(port), timeout_s=TIMEOUT_MS / 1000 + 5)
        self._producer = init_producer(self._connection) if idempotent else (-1, -1)
        self._topic = topic
        self._partition = partition
        self._acks = acks
        self._stopping = threading.Event()
        self._sent_s: deque[float] = deque()
        self.answers: list[Answer] = []
        """By number."""

    def run(self) -> None:
        with self._connection:
            while not self._stopping.is_set() or self._sent_s:
                if not self._stopping.is_set():
                    self._send()
                    time.sleep(0.002)
                if len(self._sent_s) >= IN_FLIGHT or self._stopping.is_set():
                    self._receive()

    def _send(self) -> None:
        number = len(self.answers) + len(self._sent_s)
        records = batch(
            [str(number).encode()],
            producer=self._producer,
            sequence=number if self._producer != (-1, -1) else -1,
        )
        request: Any = produce_request(self._topic, {self._partition: records}, acks=self._acks)
        request.timeout_ms = TIMEOUT_MS
        self._sent_s.append(time.monotonic())
        self._connection.send(request, PRODUCE_VERSION)

    def _receive(self) -> None:
        reply = self._connection.receive()
        part = only(only(reply.responses).partition_responses)
        sent_s = self._sent_s.popleft()
        self.answers.append(Answer(sent_s, time.monotonic() - sent_s, part.error_code))

    def stop(self) -> None:
        self._stopping.set()
        self.join(TIMEOUT_MS / 1000 + 10)
        assert not self.is_alive(), "a request is not answered"

    @property
    def refused(self) -> dict[int, int]:
        """Error codes by number."""
        return {n: answer.error_code for n, answer in enumerate(self.answers) if answer.error_code}


@pytest.mark.parametrize("up", ["nodes3"], indirect=True)
@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(signal.SIGTERM, id="term", marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, id="kill"),
        pytest.param(signal.SIGSTOP, id="pause", marks=pytest.mark.full),
    ],
)
def test_produces_are_held_until_the_node_is_back(up: Up, sign: signal.Signals):
    topics = [
        make_topic(up.bootstrap, name, partitions=PARTITIONS)
        for name in ("plain", "idempotent", "orders")
    ]
    partitions = [_partition_of(up.bootstrap, topic) for topic in topics]
    raw = [RawProducer(up.bootstrap, topics[n], partitions[n], idempotent=n == 1) for n in range(2)]
    for one in raw:
        one.start()
    producer = NumberedProducer(up.bootstrap, topics[2], partition=partitions[2])
    _send(producer, 300)
    _end_node(up, sign)
    ended_s = time.monotonic()
    _send(producer, 300)
    producer.flush()
    for one in raw:
        wait_until(partial(_answered_since, one, ended_s), timeout_s=10, what="an answer again")
        one.stop()

    assert not producer.errors
    found = read_all(up.bootstrap, topics[2], PARTITIONS)
    assert found == [str(n).encode() for n in range(600)], "each once, and in order"

    plain, idempotent = raw
    assert idempotent.refused == {}, "not even what was on the wire"
    in_doubt = set() if sign == signal.SIGTERM else {ErrorCode.REQUEST_TIMED_OUT}
    assert set(plain.refused.values()) <= in_doubt
    assert len(plain.refused) <= IN_FLIGHT, "only what was on the wire"
    for topic, one in zip(topics, raw, strict=False):
        numbers = [int(value) for value in read_all(up.bootstrap, topic, PARTITIONS)]
        assert numbers == sorted(set(numbers)), "none twice, and in order"
        assert set(range(len(one.answers))) - set(numbers) <= one.refused.keys(), "none is lost"
        if one is idempotent:
            assert set(numbers) == set(range(len(one.answers))), "all are there, whatever was said"
        assert max(answer.took_s for answer in one.answers) > 0.3, "some were held"
        assert one.answers[-1].sent_s > ended_s, "the node serves again"


def _answered_since(raw: RawProducer, since_s: float) -> bool:
    return raw.answers[-1].sent_s > since_s


def _end_node(up: Up, sign: signal.Signals) -> None:
    """Ends or pauses the node; returns when there is a new process, or the old one runs again."""
    before = up.pids()[f"partition-{NODE}"]
    os.kill(before, sign)
    if sign == signal.SIGSTOP:
        time.sleep(PAUSE_S)
        os.kill(before, signal.SIGCONT)
        return
    wait_until(
        lambda: up.pids().get(f"partition-{NODE}", before) != before,
        timeout_s=15,
        what=f"a new process for node {NODE}",
    )


def _send(producer: NumberedProducer, count: int) -> None:
    """Sends at a moderate rate, so that some records are always in flight."""
    for _ in range(count // 10):
        producer.send(10)
        time.sleep(0.01)


def _partition_of(bootstrap: str, topic: str) -> int:
    """A partition that the node leads; more than one if another node registered late."""
    partitions = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10)
    found = partitions.topics[topic].partitions.values()
    return min(p.id for p in found if p.leader == NODE)
