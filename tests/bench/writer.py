"""A producer that writes numbered records to one partition at a steady rate, and keeps the times.

It uses confluent-kafka with idempotence and acks=all, and otherwise the library's own settings
except a small linger, so it measures what an application would see.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.bench.acks import AckTimeline

RECORDS_PER_S = 200
LINGER_MS = 1
RECORD_BYTES = 100
# If the writer is further behind, it does not catch up: a burst would only measure its queue.
BEHIND_MAX_S = 1.0
FLUSH_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 120.0
POLL_S = 1.0
FAILURES_KEPT_MAX = 20
QUIET = {"log_level": 2}  # Lost connections are expected; do not log each one.


class NoAck(RuntimeError):
    """No acknowledgement for longer than a round may take, or the producer gave up."""


class Writer:
    """Writes to partition 0 of a topic from `__enter__` to `__exit__`, in its own thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.bootstrap = bootstrap
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._timeline = AckTimeline()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._next_number = 0
        self._error: BaseException | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": LINGER_MS,
                **QUIET,
            }
        )
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join(FLUSH_TIMEOUT_S + POLL_S)

    def wait_for_later(self, moment: float, timeout_s: float) -> float:
        """When the first record sent after `moment` was acknowledged. Raises NoAck."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = self._timeline.first_ack_of_later(moment)
                if found is not None:
                    return found
                if self._error is not None:
                    raise NoAck(f"the producer gave up: {self._error}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NoAck(f"no write acknowledged within {timeout_s:.0f} s")
                self._changed.wait(min(left, POLL_S))

    def longest_gap(self, begin: float, end: float) -> float:
        """See AckTimeline."""
        with self._changed:
            return self._timeline.longest_gap(begin, end)

    def _run(self) -> None:
        try:
            self._write()
            self._producer.flush(FLUSH_TIMEOUT_S)
        except (KafkaException, ValueError) as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _write(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            if now - due > BEHIND_MAX_S:
                due = now
            if now >= due:
                self._send(now)
                due += 1 / RECORDS_PER_S
            self._producer.poll(max(0.0, due - time.monotonic()))

    def _send(self, now: float) -> None:
        number = self._next_number
        value = b"%d" % number
        # A full queue means minutes without an acknowledgement; the waiting caller gives up then.
        with contextlib.suppress(BufferError):
            self._producer.produce(
                self.topic,
                value=value.ljust(RECORD_BYTES),
                partition=0,
                on_delivery=partial(self._delivered, number, now),
            )
            self._next_number += 1

    def _delivered(
        self, number: int, sent_at: float, error: KafkaError | None, _message: Message
    ) -> None:
        with self._changed:
            if error is not None:
                if len(self.failures) < FAILURES_KEPT_MAX:
                    self.failures.append(f"record {number}: {error}")
                return
            self.acknowledged.append(number)
            self._timeline.note(sent_at, time.monotonic())
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """How the log compares with the acknowledged records. A run that lost any does not count."""

    acknowledged: int
    missing: int
    repeated: int

    @property
    def is_whole(self) -> bool:
        """True if every acknowledged record is there, exactly once."""
        return self.missing == 0 and self.repeated == 0


def compare(acknowledged: list[int], found: list[int]) -> ReadBack:
    """`found` are the numbers in the log; it may hold more than the acknowledged ones."""
    counts = Counter(found)
    return ReadBack(
        acknowledged=len(acknowledged),
        missing=sum(1 for number in acknowledged if number not in counts),
        repeated=sum(1 for count in counts.values() if count > 1),
    )


def read_numbers(
    bootstrap: str, topic: str, *, clock: Callable[[], float] = time.monotonic
) -> list[int]:
    """All numbers in partition 0. Raises TimeoutError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-read-back",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    deadline = clock() + READ_TIMEOUT_S
    numbers: list[int] = []
    try:
        where = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=READ_TIMEOUT_S)
        consumer.assign([where])
        position = 0
        while position < end:
            if clock() > deadline:
                raise TimeoutError(f"{topic}: read {position} of {end} in {READ_TIMEOUT_S:.0f} s")
            for message in consumer.consume(num_messages=1000, timeout=POLL_S):
                if message.error() is None:
                    numbers.append(int(message.value()))
                    position = message.offset() + 1
    finally:
        consumer.close()
    return numbers
