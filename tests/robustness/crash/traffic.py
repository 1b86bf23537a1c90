"""Load for crash tests: one idempotent producer that goes on through the crash."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

_DELIVERY_TIMEOUT_MS = 120_000
_FLUSH_TIMEOUT_S = 120.0
_BURST = 20
_PAUSE_S = 0.002
_VALUE_SIZES = (20, 200, 2_000)


class IdempotentTraffic:
    """Numbers the records of each partition from 0 and remembers what was acknowledged.

    Lifecycle: a thread produces from `start` until `stop`, which returns when everything is
    acknowledged. `sent[p]` is how many records partition p got; `acknowledged[p]` maps the offset
    of each acknowledged record to its number. A failed delivery is kept in `failures`.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, seed: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent: dict[int, int] = defaultdict(int)
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        self.failures: list[str] = []
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "compression.type": self._chance.choice(["none", "lz4"]),
                "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "request.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.max.ms": 500,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stops sending and waits for the acknowledgements. Raises TimeoutError."""
        self._stopping.set()
        self._thread.join(_FLUSH_TIMEOUT_S)
        left = self._producer.flush(_FLUSH_TIMEOUT_S)
        if left or self._thread.is_alive():
            raise TimeoutError(f"{left} records not acknowledged in {_FLUSH_TIMEOUT_S:.0f} s")

    def acknowledged_count(self) -> int:
        """How many records are acknowledged so far."""
        return sum(len(offsets) for offsets in self.acknowledged.values())

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE_S):
            for _ in range(_BURST):
                self._send_one()
            self._producer.poll(0)

    def _send_one(self) -> None:
        partition = self._chance.randrange(self.partitions)
        number = self.sent[partition]
        value = f"{number}:".encode().ljust(self._chance.choice(_VALUE_SIZES), b".")
        try:
            self._producer.produce(
                self.topic, value=value, partition=partition, on_delivery=self._delivered(number)
            )
        except BufferError:
            self._producer.poll(0.1)  # The queue is full while the broker is down.
            return
        self.sent[partition] = number + 1

    def _delivered(self, number: int) -> Any:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                self.failures.append(f"record {number} of {partition}: {error}")
                return
            self.acknowledged[partition][offset] = number

        return on_delivery

    def _on_error(self, error: KafkaError) -> None:
        # Lost connections are what a crash test makes; only fatal errors end the producer.
        if error.fatal():
            self.failures.append(f"fatal: {error}")


def number_of(value: bytes | None) -> int:
    """The number in a record's value."""
    assert value is not None
    return int(value.partition(b":")[0])
