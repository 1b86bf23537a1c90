"""Copiers (consume, transform, produce) under load: records and offsets in one transaction (KIP-447)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.robustness.faults.checker import Violation
from tests.robustness.faults.client_settings import quiet_logger
from tests.robustness.faults.transactions.clients import (
    CALL_S,
    STOP_S_MAX,
    aborts,
    initialized,
    persist,
    producer_settings,
)
from tests.robustness.faults.transactions.copies import CopyHistory, copy_in, violations
from tests.robustness.faults.transactions.reading import (
    COMMITTED,
    UNCOMMITTED,
    read_all,
    wait_for_ends,
)
from tests.robustness.faults.workload import Workload
from tests.support.process import wait_until

PREFIX = b"copy of "
_BATCH = 50
_ABORT_EVERY = 6
_SESSION_MS = 6_000
_LOOK_S = 0.5


class Copier(Protocol):
    """One client that copies, as a member of the group."""

    name: str

    def start(self) -> None: ...

    def spare(self) -> None:
        """From now on nothing keeps it from the end of its input but the cluster."""

    def stop(self) -> None:
        """Ends it; also before it was started."""

    def summary(self) -> str:
        """What became of it, in a few words."""


class Copying:
    """A group of copiers. Implements `Load`; `finish` comes after the end of the input's load."""

    name = "copy"

    def __init__(
        self,
        bootstrap: str,
        output: str,
        group: str,
        source: Workload,
        copiers: Callable[[CopyHistory], list[Copier]],
        *,
        prefix: bytes = PREFIX,
    ) -> None:
        """`source` has the input's records when it has finished."""
        self.history = CopyHistory(source.history.partitions)
        self._bootstrap = bootstrap
        self._output = output
        self._group = group
        self._source = source
        self._prefix = prefix
        self._copiers = copiers(self.history)

    def start(self) -> None:
        for copier in self._copiers:
            copier.start()

    def commits(self) -> dict[str, int]:
        """Of all copiers together: who has no partition, has no transactions."""
        return {self.name: sum(len(times) for times in list(self.history.committed_s.values()))}

    def finish(self, *, timeout_s: float) -> None:
        """Waits for the end of the input, then reads the copies. Raises TimeoutError."""
        history = self.history
        history.inputs = self._source.history.stored
        ends = {p: some[-1][0] + 1 for p, some in history.inputs.items() if some}
        for copier in self._copiers:
            copier.spare()
        observer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "logger": quiet_logger(),
            }
        )

        def at_the_end() -> bool:
            history.group = self._committed_offsets(observer)
            return history.group == ends

        try:
            wait_until(
                at_the_end,
                timeout_s=timeout_s,
                what="the group at the end of the input",
                poll_s=_LOOK_S,
            )
            self.abandon()
            history.group = self._committed_offsets(observer)
        except TimeoutError as error:
            told = f"{error}: {history.group} of {ends}; {self.summary()}"
            raise TimeoutError(told) from None
        finally:
            observer.close()
            self.abandon()
        place = (self._bootstrap, self._output, history.partitions)
        history.ends = wait_for_ends(*place, timeout_s=timeout_s)
        for isolation, records in (
            (COMMITTED, history.committed),
            (UNCOMMITTED, history.everything),
        ):

            def take(partition: int, offset: int, value: bytes | None, into: Any = records) -> None:
                into[partition].append((offset, copy_in(partition, value, self._prefix)))

            read_all(*place, isolation, take, timeout_s=timeout_s)

    def abandon(self) -> None:
        for copier in self._copiers:
            copier.stop()

    def judge(self) -> list[Violation]:
        return violations(self.history)

    def errors(self) -> dict[str, list[str]]:
        return {name: errors for name, errors in self.history.errors.items() if errors}

    def summary(self) -> str:
        """Counts, in one line."""
        history = self.history
        commits = {name: len(times) for name, times in list(history.committed_s.items())}
        told = "; ".join(f"{one.name} {one.summary()}" for one in self._copiers)
        return (
            f"commits {commits}, aborts {dict(history.aborts)}, replaced {dict(history.replaced)}, "
            f"errors {self.errors()}; {told}"
        )

    def _committed_offsets(self, observer: Consumer) -> dict[int, int]:
        places = [TopicPartition(self._source.topic, p) for p in range(self.history.partitions)]
        try:
            found = observer.committed(places, timeout=CALL_S)
        except KafkaException:
            return {}  # No coordinator, for a moment.
        return {p.partition: p.offset for p in found if p.error is None and p.offset >= 0}


class LibrdkafkaCopier(threading.Thread):
    """confluent-kafka. Its clients are replaced by new ones when they cannot go on."""

    def __init__(
        self,
        clients: Mapping[str, Any],
        source: str,
        output: str,
        group: str,
        transactional_id: str,
        history: CopyHistory,
    ) -> None:
        super().__init__(name=transactional_id, daemon=True)
        self._clients = clients
        self._source = source
        self._output = output
        self._group = group
        self._history = history
        self._stopping = threading.Event()
        self._count = 0

    def spare(self) -> None:
        """Nobody kills it."""

    def stop(self) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join(STOP_S_MAX)

    def summary(self) -> str:
        return "runs" if self.is_alive() else "has ended"

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._session()
        except (KafkaException, AssertionError) as error:
            self._history.errors[self.name].append(f"ended: {error!r}")

    def _session(self) -> None:
        """From new clients to their fatal error, or to the end."""
        producer = initialized({**self._clients, **producer_settings(self.name)})
        consumer = Consumer(
            {
                **self._clients,
                "group.id": self._group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": COMMITTED,
                "session.timeout.ms": _SESSION_MS,
                "heartbeat.interval.ms": 1_000,
                "fetch.wait.max.ms": 100,
                "logger": quiet_logger(),
            }
        )
        try:
            consumer.subscribe([self._source])
            while not self._stopping.is_set():
                polled = consumer.consume(_BATCH, 0.2)
                if messages := [message for message in polled if message.error() is None]:
                    self._copy(producer, consumer, messages)
        except KafkaException as error:
            self._history.replaced[self.name].append(str(error))
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        """One transaction. Raises KafkaException if producer and consumer cannot go on."""
        self._count += 1
        offsets: dict[int, int] = {}
        try:
            producer.begin_transaction()
            for message in messages:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                value = PREFIX + (message.value() or b"")
                producer.produce(self._output, value, message.key(), partition=partition)
                offsets[partition] = offset + 1
            places = [TopicPartition(self._source, p, offset) for p, offset in offsets.items()]
            metadata = consumer.consumer_group_metadata()
            persist(lambda s: producer.send_offsets_to_transaction(places, metadata, s))
            if self._count % _ABORT_EVERY:
                persist(producer.commit_transaction)
                self._history.committed_s[self.name].append(time.monotonic())
                return
            persist(producer.abort_transaction)
        except KafkaException as error:
            if not aborts(producer, error):
                raise
        self._history.aborts[self.name] += 1
        _rewind(consumer)


def _rewind(consumer: Consumer) -> None:
    """Goes on from the committed offsets. Raises KafkaException."""
    for place in consumer.committed(consumer.assignment(), timeout=CALL_S):
        if place.error is not None:
            raise KafkaException(place.error)
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
