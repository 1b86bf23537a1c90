"""confluent-kafka, the binding of a current librdkafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Received

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member, PollingMember, collect
from tests.conformance.messages import EVERYTHING, Message, Stored

_TIMEOUT_MS = int(CLIENT_TIMEOUT_S * 1000)
_POLL_RECORDS_MAX = 500


class ConfluentClient:
    """Implements `tests.conformance.client.Client`."""

    name = "confluent"
    writes = EVERYTHING
    picks_partition = True

    def __init__(self, group_protocol: str = "classic") -> None:
        """`group_protocol` is that of `join`: classic or consumer (KIP-848)."""
        self._group_protocol = group_protocol

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int | None = None,
        codec: str = "none",
        acks: str = "all",
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "delivery.timeout.ms": _TIMEOUT_MS,
                "linger.ms": 20,
            }
        )
        errors: list[KafkaError] = []
        for message in messages:
            chosen: dict[str, Any] = {} if partition is None else {"partition": partition}
            if message.timestamp_ms is not None:
                chosen["timestamp"] = message.timestamp_ms
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers) or None,
                on_delivery=lambda error, _: errors.append(error) if error else None,
                **chosen,
            )
        left = producer.flush(CLIENT_TIMEOUT_S)
        assert left == 0, f"{left} messages were not delivered"
        if errors:
            raise KafkaException(errors[0])

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        consumer = open_consumer(bootstrap)
        try:
            wanted = [TopicPartition(topic, index, max(start, 0)) for index in range(partitions)]
            if start != BEGINNING:
                wanted = consumer.offsets_for_times(wanted, timeout=CLIENT_TIMEOUT_S)
            consumer.assign(wanted)
            return collect(lambda timeout: poll(consumer, timeout), count)
        finally:
            consumer.close()

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return PollingMember(lambda: _Poller(bootstrap, group, topic, self._group_protocol))


class _Poller:
    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        if protocol == "classic":
            self._consumer = open_consumer(bootstrap, **{"group.id": group})
        else:
            self._consumer = open_new_consumer(bootstrap, **{"group.id": group})
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Stored]:
        return poll(self._consumer, timeout_s)

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def open_consumer(bootstrap: str, **settings: Any) -> Consumer:
    """A consumer that commits only on request and starts at the beginning."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            **settings,
        }
    )


def open_new_consumer(bootstrap: str, **settings: Any) -> Consumer:
    """The same of the consumer protocol, whose timeouts are the broker's."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )


def poll(consumer: Consumer, timeout_s: float) -> list[Stored]:
    """Returns the records that arrive within the time. Raises KafkaException for an error event."""
    stored = []
    for message in consumer.consume(_POLL_RECORDS_MAX, timeout_s):
        if (error := message.error()) is not None:
            raise KafkaException(error)
        stored.append(_stored(message))
    return stored


def _stored(message: Received) -> Stored:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    _, timestamp_ms = message.timestamp()
    headers = message.headers() or []
    return Stored(
        partition=partition,
        offset=offset,
        message=Message(
            key=_bytes(message.key()),
            value=_bytes(message.value()),
            headers=tuple((name, _bytes(value)) for name, value in headers),
            timestamp_ms=timestamp_ms,
        ),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
