"""Clients that produce as fast as they may, and what was acknowledged when."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

RECORD = b"x" * 10_000
FLUSH_S = 30.0
EAGER: Mapping[str, str | int] = {
    "linger.ms": 5,
    "batch.size": 65_536,
    "queue.buffering.max.kbytes": 4_096,
    "max.in.flight": 5,  # Java's default. All of it passes before a client hears that it has to wait.
}


class Load:
    """Clients that produce to one partition as fast as they may, in threads."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partition: int,
        clients: int = 2,
        record: bytes = RECORD,
        settings: Mapping[str, str | int] = EAGER,
    ) -> None:
        self.errors: list[KafkaError] = []
        self.acknowledged: list[tuple[float, int]] = []
        """(monotonic seconds, bytes) of each record, in this order."""
        self._record = record
        self._settings = {"bootstrap.servers": bootstrap, **settings}
        self._delivered = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(topic, partition)) for _ in range(clients)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def rate(self, seconds: float) -> float:
        """Bytes per second that are acknowledged from now on."""
        began, before = time.monotonic(), self._delivered
        time.sleep(seconds)
        return (self._delivered - before) / (time.monotonic() - began)

    def _produce(self, topic: str, partition: int) -> None:
        producer = Producer(self._settings)
        while not self._over.is_set():
            try:
                producer.produce(topic, self._record, partition=partition, on_delivery=self._done)
            except BufferError:
                producer.poll(0.02)
            producer.poll(0)
        producer.flush(FLUSH_S)

    def _done(self, error: KafkaError | None, message: Message) -> None:
        with self._lock:
            if error is None:
                self._delivered += len(message)
                self.acknowledged.append((time.monotonic(), len(message)))
            else:
                self.errors.append(error)


def greatest_in_any(window_s: float, acknowledged: list[tuple[float, int]]) -> int:
    """The most bytes that were acknowledged within so many seconds."""
    greatest = held = first = 0
    for at_s, nbytes in acknowledged:
        held += nbytes
        while acknowledged[first][0] <= at_s - window_s:
            held -= acknowledged[first][1]
            first += 1
        greatest = max(greatest, held)
    return greatest
