"""An unmodified client, confluent-kafka, from outside the stack."""

from __future__ import annotations

import threading
import time
from typing import Self

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.docker.stack import wait_for

PATIENCE_S = 90


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Returns when every partition has a leader."""
    client = admin(bootstrap)
    made = client.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=30)
    made[topic].result(60)

    def led() -> bool:
        described = client.list_topics(topic, timeout=10).topics[topic].partitions
        return len(described) == partitions and all(p.leader >= 0 for p in described.values())

    wait_for(led, PATIENCE_S)


class Writer:
    """Sends numbered messages, idempotent with acks=all, until told to stop; keeps what was acked."""

    def __init__(self, bootstrap: str, topic: str, *, pause_s: float = 0.005) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": PATIENCE_S * 1000,
            }
        )
        self._topic = topic
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acked: set[bytes] = set()
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S + 10)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = b"%d" % number
            self._producer.produce(self._topic, value, key=value, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            time.sleep(self._pause_s)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, message) -> None:
        if error is None:
            self.acked.add(message.value())
        else:
            self.errors.append(str(error))

    def wait_for_more(self, count: int) -> None:
        """Waits until so many more are acknowledged."""
        wanted = len(self.acked) + count
        wait_for(lambda: len(self.acked) >= wanted, PATIENCE_S, lambda: f"{self.errors[:5]}")


def consumer(bootstrap: str, topic: str, group: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    made.subscribe([topic])
    return made


def read(bootstrap: str, topic: str, wanted: set[bytes], group: str) -> list[bytes]:
    """Values from the beginning until all that are wanted have come, and a moment longer."""
    reader = consumer(bootstrap, topic, group)
    found: list[bytes] = []
    missing = set(wanted)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while missing and time.monotonic() < deadline:
            messages = reader.consume(1000, 1.0)
            values = [message.value() for message in messages if message.error() is None]
            found += values
            missing.difference_update(values)
        found += [m.value() for m in reader.consume(1000, 2.0) if m.error() is None]
    finally:
        reader.close()
    return found
