"""An unmodified client, confluent-kafka, from outside the stack."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, BrokerMetadata, NewTopic, PartitionMetadata

from tests.docker.stack import wait_for

PATIENCE_S = 90
REPLICAS = 3


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def brokers(bootstrap: str) -> dict[int, BrokerMetadata]:
    """Brokers by id, as a client of that address is told."""
    return admin(bootstrap).list_topics(timeout=30).brokers


def make_topic(bootstrap: str, partitions: int) -> str:
    """A new topic of three replicas of which two have to have a record; when all are in sync."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    client = admin(bootstrap)
    wanted = NewTopic(name, partitions, REPLICAS, config={"min.insync.replicas": "2"})
    client.create_topics([wanted], operation_timeout=30)[name].result(60)
    wait_until_in_sync(bootstrap, name, partitions)
    return name


def partitions_of(bootstrap: str, topic: str) -> dict[int, PartitionMetadata]:
    return admin(bootstrap).list_topics(topic, timeout=30).topics[topic].partitions


def wait_until_in_sync(bootstrap: str, topic: str, partitions: int) -> None:
    """Returns when each partition has a leader, and all of its replicas follow."""

    def in_sync() -> bool:
        found = partitions_of(bootstrap, topic)
        return len(found) == partitions and all(
            one.leader >= 0 and len(one.isrs) == len(one.replicas) == REPLICAS
            for one in found.values()
        )

    wait_for(in_sync, PATIENCE_S, lambda: str(partitions_of(bootstrap, topic)))


class Writer:
    """Sends numbered messages, idempotent with acks=all, until told to stop; keeps what was acked."""

    def __init__(self, bootstrap: str, topic: str, *, pause_s: float = 0.0025) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
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
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = b"%d" % number
            try:
                self._producer.produce(self._topic, value, key=value, on_delivery=self._delivered)
                number += 1
            except BufferError:
                pass  # Its queue is full; the same one again, after what is delivered meanwhile.
            self._producer.poll(0)
            time.sleep(self._pause_s)
        if left := self._producer.flush(PATIENCE_S):
            self.errors.append(f"{left} neither acknowledged nor failed")

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


def read(bootstrap: str, topic: str, wanted: set[bytes]) -> list[bytes]:
    """All values from the beginning to the ends that the leaders tell, and until all wanted came."""
    # Not as the member of a group, which would wait three seconds for others.
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    found: list[bytes] = []
    missing = set(wanted)
    deadline = time.monotonic() + PATIENCE_S
    try:
        numbers = partitions_of(bootstrap, topic)
        partitions = [TopicPartition(topic, number, 0) for number in numbers]
        count = sum(_end_of(reader, one) for one in partitions)
        reader.assign(partitions)
        while (missing or len(found) < count) and time.monotonic() < deadline:
            messages = reader.consume(1000, 0.2)
            values = [message.value() for message in messages if message.error() is None]
            found += values
            missing.difference_update(values)
    finally:
        reader.close()
    return found


def _end_of(reader: Consumer, partition: TopicPartition) -> int:
    """The high watermark, from whoever leads."""

    def asked() -> tuple[int, int] | None:
        try:
            found: tuple[int, int] = reader.get_watermark_offsets(partition, timeout=10)
        except KafkaException:
            return None  # Its leader has just changed.
        return found

    return wait_for(asked, PATIENCE_S)[1]


def assert_exactly_once(bootstrap: str, topic: str, writer: Writer) -> None:
    """Whatever was sent was acknowledged, and is there once."""
    assert writer.errors == []
    found = read(bootstrap, topic, writer.acked)
    assert len(found) == len(writer.acked), "lost, or there twice"
    assert set(found) == writer.acked


def commit_all(bootstrap: str, topic: str, group: str, count: int) -> None:
    """A member of that group reads so many messages, and commits."""
    reader = consumer(bootstrap, topic, group)
    seen = 0
    deadline = time.monotonic() + PATIENCE_S
    try:
        while seen < count:
            assert time.monotonic() < deadline, f"{seen} of {count}"
            seen += sum(m.error() is None for m in reader.consume(1000, 1.0))
        reader.commit(asynchronous=False)
    finally:
        reader.close()
