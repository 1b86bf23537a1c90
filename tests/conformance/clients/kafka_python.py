"""kafka-python 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member, PollingMember, collect
from tests.conformance.messages import EVERYTHING, Message, Stored


class KafkaPythonClient:
    """Implements `tests.conformance.client.Client`."""

    name = "kafka-python"
    writes = EVERYTHING
    picks_partition = True

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
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            for future in futures:
                future.get(timeout=CLIENT_TIMEOUT_S)
        finally:
            producer.close(timeout=CLIENT_TIMEOUT_S)

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        consumer = open_consumer(bootstrap)
        try:
            wanted = [TopicPartition(topic, index) for index in range(partitions)]
            consumer.assign(wanted)
            if start == BEGINNING:
                consumer.seek_to_beginning(*wanted)
            else:
                found = consumer.offsets_for_times(dict.fromkeys(wanted, start))
                for partition, offset in found.items():
                    consumer.seek(partition, offset.offset)
            return collect(lambda timeout: poll(consumer, timeout), count)
        finally:
            consumer.close()

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return PollingMember(lambda: _Poller(bootstrap, group, topic))


# If a poll of this client times out between the answers to JoinGroup and SyncGroup, it loses its
# assignment until the next rebalance (3.0.12: `need_rejoin` is false, and nothing completes the
# join). Its own wait for metadata is 100 ms, so polls of 100 ms fail in one run of ten.
MEMBER_POLL_S = 1.0


class _Poller:
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._consumer = open_consumer(bootstrap, group_id=group)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[Stored]:
        """Returns the records that arrive; waits longer than asked, see `MEMBER_POLL_S`."""
        return poll(self._consumer, max(timeout_s, MEMBER_POLL_S))

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self._consumer.assignment())

    def commit(self) -> None:
        positions = {
            partition: OffsetAndMetadata(self._consumer.position(partition), "", -1)
            for partition in self._consumer.assignment()
        }
        self._consumer.commit(positions)

    def close(self) -> None:
        self._consumer.close()


def open_consumer(bootstrap: str, **settings: Any) -> KafkaConsumer:
    """A consumer that commits only on request and starts at the beginning."""
    return KafkaConsumer(
        **{
            "bootstrap_servers": bootstrap,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 500,
            **settings,
        }
    )


def poll(consumer: KafkaConsumer, timeout_s: float) -> list[Stored]:
    """Returns the records that arrive within the time."""
    polled = consumer.poll(timeout_ms=int(timeout_s * 1000))
    return [
        Stored(
            partition=record.partition,
            offset=record.offset,
            message=Message(
                key=record.key,
                value=record.value,
                headers=tuple((name, value) for name, value in record.headers),
                timestamp_ms=record.timestamp,
            ),
        )
        for records in polled.values()
        for record in records
    ]
