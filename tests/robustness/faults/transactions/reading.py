"""Reads topics by isolation level: all of them at the end, or while there are faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.robustness.faults.client_settings import quiet_logger
from tests.robustness.faults.transactions.ledger import Ends

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"

_ASK_S_MAX = 20.0
_BATCH = 500
_POLL_S = 0.2

Take = Callable[[int, int, bytes | None], None]
"""Is given partition, offset and value of each record."""


def wait_for_ends(
    bootstrap: str, topic: str, partitions: int, *, timeout_s: float
) -> dict[int, Ends]:
    """Waits until every last stable offset is the high watermark; returns both, also if they never
    meet: the checker says so."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "logger": quiet_logger()})
    deadline_s = time.monotonic() + timeout_s
    while True:
        stable = _ends(admin, topic, partitions, IsolationLevel.READ_COMMITTED)
        high = _ends(admin, topic, partitions, IsolationLevel.READ_UNCOMMITTED)
        if stable == high or time.monotonic() > deadline_s:
            return {p: Ends(stable[p], high[p]) for p in range(partitions)}
        time.sleep(_POLL_S)


def _ends(
    admin: AdminClient, topic: str, partitions: int, isolation: IsolationLevel
) -> dict[int, int]:
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_ASK_S_MAX)
    return {place.partition: one.result(_ASK_S_MAX).offset for place, one in answers.items()}


def read_all(
    bootstrap: str,
    topic: str,
    partitions: int,
    isolation: str,
    take: Take,
    *,
    timeout_s: float,
) -> None:
    """Gives every record of the topic to `take`. Raises TimeoutError if the ends are not reached."""
    consumer = Consumer(
        {
            **_settings({"bootstrap.servers": bootstrap}, isolation),
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    deadline_s = time.monotonic() + timeout_s
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        while len(ended) < partitions:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{isolation}: read only {sorted(ended)} of {topic} to the end")
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is None:
                    _give(message, take)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(_place(message)[0])
    finally:
        consumer.close()


class Reader(threading.Thread):
    """Reads every partition with read_committed until it is stopped."""

    def __init__(self, clients: Mapping[str, Any], topic: str, partitions: int, take: Take) -> None:
        super().__init__(name="reader", daemon=True)
        self.next_offsets = dict.fromkeys(range(partitions), 0)
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._topic = topic
        self._take = take
        self._consumer = Consumer({**_settings(clients, COMMITTED), "auto.offset.reset": "error"})

    def run(self) -> None:
        try:
            places = [TopicPartition(self._topic, p, 0) for p in self.next_offsets]
            self._consumer.assign(places)
            while not self._stopping.is_set():
                for message in self._consumer.consume(_BATCH, _POLL_S):
                    error = message.error()
                    if error is None:
                        partition, offset = _give(message, self._take)
                        self.next_offsets[partition] = offset + 1
                    elif error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                        self.errors.append(str(error))
        except KafkaException as error:
            self.errors.append(f"ended: {error}")
        finally:
            self._consumer.close()

    def has_read(self, last: Mapping[int, int]) -> bool:
        """Whether it was given the records at these offsets, by partition."""
        return all(self.next_offsets[p] > offset for p, offset in last.items())

    def stop(self, timeout_s: float) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join(timeout_s)


def last_offsets(records: Mapping[int, Sequence[tuple[int, object]]]) -> dict[int, int]:
    """The offset of the last record of each partition that has one."""
    return {p: some[-1][0] for p, some in records.items() if some}


def _settings(clients: Mapping[str, Any], isolation: str) -> dict[str, Any]:
    return {
        **clients,
        "group.id": "none",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "check.crcs": True,
        "fetch.wait.max.ms": 200,
        "logger": quiet_logger(),
    }


def _give(message: Message, take: Take) -> tuple[int, int]:
    partition, offset = _place(message)
    take(partition, offset, message.value())
    return partition, offset


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
