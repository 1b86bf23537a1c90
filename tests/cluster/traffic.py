"""Writes and reads numbered records with an ordinary client."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_TIMEOUT_S = 40.0


class NumberedProducer:
    """An idempotent producer of "0", "1", ...; it notes which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, *, partition: int = -1) -> None:
        """`partition` -1 means that the keys decide."""
        self._topic = topic
        self._partition = partition
        self._next = 0
        self.acknowledged: set[bytes] = set()
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": int(_TIMEOUT_S * 1000),
                "reconnect.backoff.max.ms": 200,
                "logger": _quiet(),
            }
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            value = str(self._next).encode()
            self._next += 1
            self._producer.produce(
                self._topic,
                value,
                key=value,
                partition=self._partition,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)

    def flush(self) -> None:
        left = self._producer.flush(_TIMEOUT_S)
        assert left == 0, f"{left} records are neither acknowledged nor refused"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged.add(message.value())


def read_all(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """Every value in the topic, read up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
            "logger": _quiet(),
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"only {ended} of {partitions} partitions ended"
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return values


def _quiet() -> object:
    """Drops librdkafka's log lines about connections that these tests break."""
    import logging

    logger = logging.getLogger("tests.cluster.librdkafka")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL)
    return logger
