"""aiokafka, on a separate asyncio loop per call or member."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member, PollingMember
from tests.conformance.messages import EVERYTHING, Message, Stored


class AiokafkaClient:
    """Implements `tests.conformance.client.Client`."""

    name = "aiokafka"
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
        asyncio.run(_produce(bootstrap, topic, messages, partition, codec, acks))

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        return asyncio.run(_consume(bootstrap, topic, partitions, count, start))

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return PollingMember(lambda: _Poller(bootstrap, group, topic))


async def _produce(
    bootstrap: str,
    topic: str,
    messages: Sequence[Message],
    partition: int | None,
    codec: str,
    acks: str,
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all" if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        linger_ms=20,
    ) as producer:
        sent = [
            await producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        await asyncio.wait_for(asyncio.gather(*sent), CLIENT_TIMEOUT_S)


async def _consume(
    bootstrap: str, topic: str, partitions: int, count: int, start: int
) -> list[Stored]:
    async with open_consumer(bootstrap) as consumer:
        wanted = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(wanted)
        if start == BEGINNING:
            await consumer.seek_to_beginning(*wanted)
        else:
            found = await consumer.offsets_for_times(dict.fromkeys(wanted, start))
            for partition, offset in found.items():
                consumer.seek(partition, offset.offset)
        stored: list[Stored] = []
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            while len(stored) < count:
                stored += await poll(consumer, 0.1)
    assert len(stored) == count, f"{len(stored)} records instead of {count}"
    return stored


class _Poller:
    """Runs the consumer on a loop that belongs to the member's thread."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(_subscribed(bootstrap, group, topic))

    def poll(self, timeout_s: float) -> list[Stored]:
        return self._runner.run(poll(self._consumer, timeout_s))

    def assignment(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self._consumer.assignment())

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


async def _subscribed(bootstrap: str, group: str, topic: str) -> AIOKafkaConsumer:
    consumer = open_consumer(bootstrap, group_id=group)
    await consumer.start()
    consumer.subscribe([topic])
    return consumer


def open_consumer(bootstrap: str, **settings: Any) -> AIOKafkaConsumer:
    """A consumer, not started, that commits only on request and starts at the beginning."""
    return AIOKafkaConsumer(
        **{
            "bootstrap_servers": bootstrap,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 500,
            **settings,
        }
    )


async def poll(consumer: AIOKafkaConsumer, timeout_s: float) -> list[Stored]:
    """Returns the records that arrive within the time."""
    polled = await consumer.getmany(timeout_ms=int(timeout_s * 1000))
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
