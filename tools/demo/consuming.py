"""Reads the topic back through a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tools.demo.errors import DemoError
from tools.demo.producing import LOG_LEVEL, RUN_HEADER

READ_TIMEOUT_S = 120.0
COMMITTED_TIMEOUT_S = 30.0
BATCH = 1000
POLL_S = 0.5

# librdkafka's code for the end of a partition (`KafkaError._PARTITION_EOF`).
_END_OF_PARTITION = -191


@dataclass(slots=True, kw_only=True)
class ReadBack:
    """The records that the group read: (offset, value) for each partition, in order.

    `others` counts records of earlier runs; `committed` has the committed offsets from the broker.
    """

    by_partition: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    others: int = 0
    committed: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of this run's records."""
        return sum(len(records) for records in self.by_partition.values())


def read_back(
    bootstrap: str,
    topic: str,
    *,
    group: str,
    run_id: str,
    partitions: int,
    end_offsets: Mapping[int, int],
    advance: Callable[[int], None],
) -> ReadBack:
    """Reads every partition from its beginning to its end, and commits.

    Each partition is read to its end, which must not be before its entry in `end_offsets`, so that
    duplicates are found, too. Raises DemoError.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": LOG_LEVEL,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = ReadBack()
    try:
        consumer.subscribe([topic])
        _read(consumer, found, run_id, partitions, end_offsets, advance)
        consumer.commit(asynchronous=False)
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        for each in consumer.committed(asked, timeout=COMMITTED_TIMEOUT_S):
            found.committed[each.partition] = each.offset
    except KafkaException as error:
        raise DemoError(f"group {group}: {error}") from error
    finally:
        consumer.close()
    return found


def _read(
    consumer: Consumer,
    found: ReadBack,
    run_id: str,
    partitions: int,
    end_offsets: Mapping[int, int],
    advance: Callable[[int], None],
) -> None:
    deadline = time.monotonic() + READ_TIMEOUT_S
    ended: set[int] = set()
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise DemoError(
                f"{found.count} records read back, and {partitions - len(ended)} of {partitions} "
                f"partitions not read to their end within {READ_TIMEOUT_S:.0f} s"
            )
        before = found.count
        for message in consumer.consume(BATCH, timeout=POLL_S):
            error = message.error()
            if error is None:
                _take(found, message, run_id)
            elif error.code() != _END_OF_PARTITION:
                raise DemoError(f"while reading back: {error}")
            elif _offset(message) >= end_offsets.get(_partition(message), 0):
                ended.add(_partition(message))
        advance(found.count - before)


def _take(found: ReadBack, message: Message, run_id: str) -> None:
    if (RUN_HEADER, run_id.encode()) not in (message.headers() or []):
        found.others += 1
        return
    records = found.by_partition.setdefault(_partition(message), [])
    records.append((_offset(message), message.value() or b""))


def _partition(message: Message) -> int:
    partition: int | None = message.partition()
    assert partition is not None
    return partition


def _offset(message: Message) -> int:
    offset: int | None = message.offset()
    assert offset is not None
    return offset
