"""What is in a topic at the end, for the checker."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.robustness.faults.client_settings import PATIENT, quiet_logger
from tests.robustness.faults.history import History, number_in

_BATCH = 500
_MISSING_S = 10.0


def read_log(bootstrap: str, topic: str, history: History, *, timeout_s: float) -> dict[int, int]:
    """Reads the whole topic into `stored`; returns the end offset of each partition.

    A new leader's high watermark may still be on its way: acknowledged records have `_MISSING_S`
    to appear. Raises TimeoutError if the ends are not reached in time.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "logger": quiet_logger(),
            **PATIENT,
        }
    )
    partitions = range(history.partitions)
    stored: dict[int, list[tuple[int, int]]] = {p: [] for p in partitions}
    ended: set[int] = set()
    told = {p: max(history.acknowledged[p].values(), default=-1) for p in partitions}
    begun_s = time.monotonic()

    def complete() -> bool:
        if len(ended) < history.partitions:
            return False
        short = any(told[p] >= 0 and (not stored[p] or stored[p][-1][0] < told[p]) for p in told)
        return not short or time.monotonic() > begun_s + _MISSING_S

    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        while not complete():
            if time.monotonic() > begun_s + timeout_s:
                raise TimeoutError(f"read only {sorted(ended)} of {topic} to the end")
            for message in consumer.consume(_BATCH, 0.2):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        ended.add(partition)
                    continue
                ended.discard(partition)
                stored[partition].append((offset, number_in(partition, message.value())))
    finally:
        consumer.close()
    history.stored = stored
    return {p: records[-1][0] + 1 if records else 0 for p, records in stored.items()}
