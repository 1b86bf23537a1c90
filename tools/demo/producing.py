"""Loads the log with an ordinary producer: idempotent, acks=all, one record per line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.demo.errors import DemoError, UsageError

ADMIN_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 120.0
FULL_QUEUE_WAIT_S = 1.0
FULL_QUEUE_TRIES_MAX = 60

LOG_LEVEL = 3
"""Makes the clients log errors, but not retries."""

RUN_HEADER = "run-id"
"""The header that distinguishes this run's records from those of earlier runs."""


@dataclass(slots=True, kw_only=True)
class Acknowledged:
    """The acknowledged records: (offset, line number) for each partition, in order of arrival."""

    by_partition: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of acknowledged records."""
        return sum(len(records) for records in self.by_partition.values())

    def end_offsets(self) -> dict[int, int]:
        """For each partition the offset after the last acknowledged record."""
        return {
            partition: max(offset for offset, _ in records) + 1
            for partition, records in self.by_partition.items()
        }


def create_topic(bootstrap: str, topic: str, partitions: int) -> bool:
    """Creates the topic; False if it exists from an earlier run. Raises DemoError."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    try:
        admin.create_topics([new], request_timeout=ADMIN_TIMEOUT_S)[topic].result(ADMIN_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise DemoError(f"topic {topic} could not be created: {error}") from error
    else:
        return True
    found = admin.list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic]
    if len(found.partitions) != partitions:
        raise UsageError(
            f"topic {topic} exists with {len(found.partitions)} partitions, not {partitions}"
        )
    return False


def load(
    bootstrap: str,
    topic: str,
    lines: Sequence[bytes],
    *,
    run_id: str,
    advance: Callable[[int], None],
) -> Acknowledged:
    """Sends every line and waits for all acknowledgements; calls `advance` with their number.

    The key is the visitor's address, so the requests of one visitor stay in order. Raises
    DemoError when a record is refused or not acknowledged in time.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": LOG_LEVEL,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "message.timeout.ms": int(FLUSH_TIMEOUT_S * 1000),
        }
    )
    acknowledged = Acknowledged()
    refused: list[str] = []

    def on_delivery(number: int, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            refused.append(f"line {number + 1}: {error}")
            return
        acknowledged.by_partition.setdefault(partition, []).append((offset, number))
        advance(1)

    header = [(RUN_HEADER, run_id.encode())]
    for number, line in enumerate(lines):
        _send(
            producer,
            topic,
            value=line,
            key=line.partition(b" ")[0],
            headers=header,
            on_delivery=lambda error, message, number=number: on_delivery(number, error, message),
        )
        producer.poll(0)
    unconfirmed = producer.flush(FLUSH_TIMEOUT_S)
    if refused:
        raise DemoError(f"{len(refused)} records were refused, the first: {refused[0]}")
    if unconfirmed:
        raise DemoError(f"{unconfirmed} records not confirmed within {FLUSH_TIMEOUT_S:.0f} s")
    return acknowledged


def _send(producer: Producer, topic: str, **record: Any) -> None:
    for _ in range(FULL_QUEUE_TRIES_MAX):
        try:
            producer.produce(topic, **record)
        except BufferError:  # The client's queue is full: wait for acknowledgements.
            producer.poll(FULL_QUEUE_WAIT_S)
        else:
            return
    raise DemoError("the broker takes no records: the producer's queue stays full")
