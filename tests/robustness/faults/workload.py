"""Clients that run during a fault, and note in a history what they did and saw.

There are an idempotent producer with acks=all, a consumer that reads every partition by itself, and
a group member that commits. Each is a thread of its own and owns its part of the history.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.robustness.faults.checker import longest_pause
from tests.robustness.faults.client_settings import PATIENT, quiet_logger
from tests.robustness.faults.history import (
    UNKNOWN_OFFSET,
    Assigned,
    Committed,
    Committing,
    History,
    Read,
    number_in,
    value_of,
)
from tests.robustness.faults.log_reading import read_log
from tests.support.process import wait_until

DELIVERY_TIMEOUT_S = 120.0
TICK_S = 0.02
STANDSTILL_S = 0.5
"""Longer calls of the client library are reported: the cluster does not cause them."""
READER, MEMBER = "reader", "member"

_JOIN_TIMEOUT_S = 90.0
_COMMIT_EVERY_S = 0.5
_BATCH = 500
_ERRORS_MAX = 50
# Errors that a consumer's user must handle; others are lost connections, which the client retries.
_FATAL = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.INVALID_MSG,
    KafkaError._BAD_MSG,
    KafkaError._FATAL,
}


class Workload:
    """Runs from `start` until `finish`, which ends the clients and reads the log."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        per_tick: int = 1,
        group: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`per_tick` records for each partition every `TICK_S`; no member without a group.

        `settings` are those of all clients that differ from what the library does by itself.
        """
        self.topic = topic
        self.group = group
        self.history = History(partitions)
        self._bootstrap = bootstrap
        self._stop_sending = threading.Event()
        self._stop_reading = threading.Event()
        self._clients = {"bootstrap.servers": bootstrap, **PATIENT, **(settings or {})}
        self._sender = _Sender(self._clients, topic, self.history, per_tick, self._stop_sending)
        self._readers: list[_ConsumerThread] = [
            _Reader(self._clients, topic, self.history, self._stop_reading)
        ]
        if group:
            member = _Member(self._clients, topic, self.history, self._stop_reading, group)
            self._readers.append(member)
        self.started_s = 0.0
        self.ended_s = 0.0

    def start(self) -> None:
        self.started_s = time.monotonic()
        for thread in (*self._readers, self._sender):
            thread.start()

    def join(self, count: int = 1) -> None:
        """More members join the group; they have one history together, and stay until the end."""
        assert self.group, "there is no group"
        for _ in range(count):
            member = _Member(
                self._clients, self.topic, self.history, self._stop_reading, self.group
            )
            # A new member begins where the group is.
            member.furthest = self._readers[-1].furthest
            self._readers.append(member)
            member.start()

    def wait_for_progress(self, count: int, *, timeout_s: float) -> None:
        """Returns when each partition has so many more acknowledgements. Raises TimeoutError."""
        before = {p: len(numbers) for p, numbers in self.history.acknowledged.items()}

        def progressed() -> bool:
            return all(
                len(numbers) >= before[p] + count
                for p, numbers in self.history.acknowledged.items()
            )

        try:
            wait_until(progressed, timeout_s=timeout_s, what="acknowledgements")
        except TimeoutError as error:
            now = {p: len(numbers) for p, numbers in self.history.acknowledged.items()}
            raise TimeoutError(f"{error}: {before} before, {now} now; {self.summary()}") from None

    def wait_for_readers(self, *, timeout_s: float) -> None:
        """Returns when every consumer has read what is acknowledged now. Raises TimeoutError."""
        ends = {
            p: max(list(numbers.values()), default=-1) + 1
            for p, numbers in self.history.acknowledged.items()
        }
        for reader in self._readers:
            reader.wait_for(ends, timeout_s)

    def commit_count(self) -> int:
        """How many commits of the group were confirmed, partition by partition."""
        return sum(isinstance(step, Committed) for step in list(self.history.steps[MEMBER]))

    def finish(self, *, timeout_s: float) -> History:
        """Waits for what is unacknowledged, then for the readers. Raises TimeoutError."""
        self._stop_sending.set()
        self._sender.join(DELIVERY_TIMEOUT_S + 10)
        self.ended_s = time.monotonic()
        try:
            assert not self._sender.is_alive(), "the producer does not end"
            ends = read_log(self._bootstrap, self.topic, self.history, timeout_s=timeout_s)
            for reader in self._readers:
                reader.wait_for(ends, timeout_s)
        finally:
            self.abandon()
        assert not any(reader.is_alive() for reader in self._readers), "a consumer does not end"
        return self.history

    def abandon(self) -> None:
        """Ends all threads; also after a failure."""
        self._stop_sending.set()
        self._stop_reading.set()
        for thread in (self._sender, *self._readers):
            if thread.ident is not None:
                thread.join(_JOIN_TIMEOUT_S)

    def pause(self, *, since: float, until: float) -> tuple[float, str]:
        """The longest pause between acknowledgements of any one partition, and which one it was."""
        pause, partition = max(
            (
                longest_pause(
                    # A thread of its own goes on appending.
                    list(self.history.sent_s[partition]),
                    list(times),
                    since=since,
                    until=until,
                ),
                partition,
            )
            for partition, times in self.history.acknowledged_s.items()
        )
        wall_s = time.time() - time.monotonic() + pause.begun_s
        told = (
            f"{pause.seconds:.2f} s at partition {partition}, from "
            f"{time.strftime('%H:%M:%S', time.gmtime(wall_s))}.{int(wall_s % 1 * 1000):03} UTC on, "
            f"{pause.begun_s - since:.2f} s after the beginning"
        )
        return pause.seconds, told

    def summary(self) -> str:
        """Counts, in one line."""
        history = self.history
        words = [
            f"{sum(history.sent.values())} sent",
            f"{history.acknowledged_count()} acknowledged",
            f"{history.failed_count()} failed",
            *(f"{history.read_count(name)} by the {name}" for name in list(history.steps)),
        ]
        errors = [f"{name}: {errors[:3]}" for name, errors in history.errors.items() if errors]
        return ", ".join([*words, f"{self.commit_count()} commits", *errors, *history.standstills])


class _Sender(threading.Thread):
    """Sends numbered records to each partition in turn."""

    def __init__(
        self,
        clients: Mapping[str, Any],
        topic: str,
        history: History,
        per_tick: int,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name="sender", daemon=True)
        self._topic = topic
        self._history = history
        self._per_tick = per_tick
        self._stopping = stopping
        self._producer = Producer(
            {
                **clients,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
                "error_cb": self._on_error,
                "logger": quiet_logger(),
            }
        )

    def run(self) -> None:
        try:
            self._send_until_stopped()
        except KafkaException as error:
            # Only a fatal error is raised: this producer will send no more.
            self._history.errors["producer"].append(str(error))
            self._producer.purge()
        deadline_s = time.monotonic() + DELIVERY_TIMEOUT_S
        while len(self._producer) and time.monotonic() < deadline_s:
            try:
                self._producer.flush(1)
            except KafkaException as error:
                self._history.errors["producer"].append(str(error))

    def _send_until_stopped(self) -> None:
        due_s = time.monotonic()
        while not self._stopping.is_set():
            for partition in range(self._history.partitions):
                for _ in range(self._per_tick):
                    self._send(partition)
            self._poll(0)
            due_s += TICK_S
            if (early_s := due_s - time.monotonic()) > 0:
                self._poll(early_s)

    def _poll(self, timeout_s: float) -> None:
        with self._timed(f"poll({timeout_s:.3f})", timeout_s):
            self._producer.poll(timeout_s)

    @contextlib.contextmanager
    def _timed(self, call: str, usual_s: float = 0.0) -> Iterator[None]:
        """Notes a call that takes far too long: the client, not the cluster, causes the pause."""
        begun_s = time.monotonic()
        yield
        took_s = time.monotonic() - begun_s
        if took_s > usual_s + STANDSTILL_S:
            self._history.standstills.append(f"{call} took {took_s:.2f} s")

    def _send(self, partition: int) -> None:
        number = self._history.sent[partition]
        try:
            with self._timed("produce"):
                self._produce(partition, number)
        except BufferError:
            self._poll(0.1)  # The queue is full while nothing is acknowledged.
            return
        self._history.sent_s[partition].append(time.monotonic())
        self._history.sent[partition] = number + 1

    def _produce(self, partition: int, number: int) -> None:
        self._producer.produce(
            self._topic,
            value_of(partition, number),
            key=b"%d" % number,
            partition=partition,
            on_delivery=self._delivered(number),
        )

    def _delivered(self, number: int) -> Any:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            if error is not None:
                self._history.failed[partition][number] = str(error)
            else:
                # librdkafka tells no offset of a record whose answer was lost, when the answer of a
                # later one shows that it is stored (`rd_kafka_dr_implicit_ack`).
                told = UNKNOWN_OFFSET if offset is None else offset
                self._history.acknowledged[partition][number] = told
                self._history.acknowledged_s[partition].append(time.monotonic())

        return on_delivery

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._history.errors["producer"].append(f"fatal: {error}")


class _ConsumerThread(threading.Thread):
    """Polls until it is stopped; `furthest` has its highest position in each partition."""

    def __init__(
        self,
        name: str,
        clients: Mapping[str, Any],
        history: History,
        stopping: threading.Event,
        group: str,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.next_offsets: dict[int, int] = dict.fromkeys(range(history.partitions), 0)
        self.furthest: dict[int, int] = dict(self.next_offsets)
        self.stopping = stopping
        self.history = history
        self.steps = history.steps[name]
        self.errors = history.errors[name]
        reset = "earliest" if group else "error"  # A reset would hide that records are gone.
        classic = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
        # In the consumer protocol (KIP-848) the coordinator has them.
        sessions = {} if clients.get("group.protocol") == "consumer" else classic
        self.consumer = Consumer(
            {
                **clients,
                "group.id": group or "none",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": reset,
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 200,
                **sessions,
                "logger": quiet_logger(),
            }
        )

    def run(self) -> None:
        try:
            self.begin()
            while not self.stopping.is_set():
                self.take(self.consumer.consume(_BATCH, 0.2))
                self.after_poll()
        except KafkaException as error:
            self.note(f"ended: {error}")
        finally:
            self.consumer.close()

    def begin(self) -> None:
        """Before the first poll."""

    def after_poll(self) -> None:
        """After each poll."""

    def take(self, messages: list[Message]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() in _FATAL or error.fatal():
                    self.note(str(error))
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.steps.append(Read(partition, offset, number_in(partition, message.value())))
            self.next_offsets[partition] = offset + 1
            self.furthest[partition] = max(self.furthest[partition], offset + 1)

    def note(self, text: str) -> None:
        if len(self.errors) < _ERRORS_MAX:
            self.errors.append(text)

    def wait_for(self, ends: dict[int, int], timeout_s: float) -> None:
        """Returns when it has read up to these offsets. Raises TimeoutError."""
        try:
            wait_until(
                lambda: all(self.furthest[p] >= end for p, end in ends.items()),
                timeout_s=timeout_s,
                what=f"the {self.name} at the end",
            )
        except TimeoutError as error:
            text = f"{error}: at {self.furthest} of {ends}; errors {self.errors[:5]}"
            raise TimeoutError(text) from None


class _Reader(_ConsumerThread):
    """Reads every partition from its beginning, on its own."""

    def __init__(
        self, clients: Mapping[str, Any], topic: str, history: History, stopping: threading.Event
    ) -> None:
        super().__init__(READER, clients, history, stopping, group="")
        self._topic = topic

    def begin(self) -> None:
        partitions = range(self.history.partitions)
        self.steps += [Assigned(partition, 0) for partition in partitions]
        self.consumer.assign([TopicPartition(self._topic, p, 0) for p in partitions])


class _Member(_ConsumerThread):
    """A member of the group; commits twice a second what it has read.

    All members fill the same history: a member that gets a partition goes on from the group's
    offset, not from its own position.
    """

    def __init__(
        self,
        clients: Mapping[str, Any],
        topic: str,
        history: History,
        stopping: threading.Event,
        group: str,
    ) -> None:
        super().__init__(MEMBER, clients, history, stopping, group)
        self._topic = topic
        self._committed: dict[int, int] = {}
        self._commit_s = time.monotonic() + _COMMIT_EVERY_S

    def begin(self) -> None:
        self.consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)

    def after_poll(self) -> None:
        if time.monotonic() < self._commit_s:
            return
        self._commit_s = time.monotonic() + _COMMIT_EVERY_S
        ahead = {
            p: offset
            for p, offset in self.next_offsets.items()
            if offset > self._committed.get(p, 0)
        }
        if not ahead:
            return
        self.steps += [Committing(p, offset) for p, offset in ahead.items()]
        places = [TopicPartition(self._topic, p, offset) for p, offset in ahead.items()]
        try:
            confirmed = self.consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return  # Refused or unanswered: the next commit includes it.
        for place in confirmed or []:
            if place.error is None:
                self.steps.append(Committed(place.partition, place.offset))
                self._committed[place.partition] = place.offset

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        for place in places:
            self.steps.append(Assigned(place.partition, -1))
            self._committed.pop(place.partition, None)
            # What was read before is not committed any more: the group goes on elsewhere.
            self.next_offsets[place.partition] = 0

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        """Stops committing for these partitions, which another member may get."""
        for place in places:
            self.next_offsets[place.partition] = 0
