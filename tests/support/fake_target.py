"""A cluster in memory for the writers of a mirror: transactions, fencing, and a death at a chosen call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

EOF: int = KafkaError._PARTITION_EOF


class Killed(BaseException):
    """What stands for SIGKILL: nothing of the process happens after it."""


@dataclass
class Entry:
    """A record, or a marker, whose value is None and whose transaction is over."""

    key: bytes | None
    value: bytes | None
    headers: Any
    time_ms: int
    transaction: Transaction
    is_marker: bool = False


@dataclass
class Transaction:
    state: str = "open"
    places: set[tuple[str, int]] = field(default_factory=set)


class Message:
    def __init__(self, entry: Entry | None, offset: int, error: Any = None) -> None:
        self._entry, self._offset, self._error = entry, offset, error

    def error(self) -> Any:
        return self._error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        assert self._entry is not None
        return self._entry.key

    def value(self) -> bytes | None:
        assert self._entry is not None
        return self._entry.value


class FakeTarget:
    """Stands for `TargetClients`; its clients call `step` first, at which the process may die."""

    bootstrap = "target:1"

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[Entry]] = defaultdict(list)
        self.epochs: dict[str, int] = defaultdict(int)
        self.open: dict[str, Transaction] = {}
        self.steps_left = -1
        """Calls until the process dies; below 0: it lives."""
        self.largest: dict[str, int] = {}
        """Bytes of values that topics take."""
        self.batch_bytes: list[int] = []

    def step(self) -> None:
        if self.steps_left == 0:
            raise Killed
        self.steps_left -= 1

    def producer(self, transactional_id: str, batch_bytes: int) -> FakeProducer:
        self.batch_bytes.append(batch_bytes)
        return FakeProducer(self, transactional_id)

    def consumer(self, *, read_committed: bool) -> FakeConsumer:
        return FakeConsumer(self, read_committed=read_committed)

    def end(self, transaction: Transaction, state: str) -> None:
        transaction.state = state
        for place in transaction.places:
            self.logs[place].append(Entry(None, None, None, 0, transaction, is_marker=True))

    def stable_end(self, place: tuple[str, int]) -> int:
        log = self.logs[place]
        opened = (at for at, entry in enumerate(log) if entry.transaction.state == "open")
        return next(opened, len(log))

    def committed(self, topic: str, partition: int) -> list[tuple[int, Entry]]:
        """Offsets and records that a read_committed consumer gets."""
        place = (topic, partition)
        return [
            (at, entry)
            for at, entry in enumerate(self.logs[place][: self.stable_end(place)])
            if not entry.is_marker and entry.transaction.state == "committed"
        ]


class FakeProducer:
    def __init__(self, target: FakeTarget, transactional_id: str) -> None:
        self._target = target
        self._id = transactional_id
        self._epoch = 0
        self._waiting: list[tuple[Callable[..., None] | None, Any, int]] = []

    def init_transactions(self, timeout: float) -> None:
        self._target.step()
        self._target.epochs[self._id] += 1
        self._epoch = self._target.epochs[self._id]
        if (left := self._target.open.pop(self._id, None)) is not None:
            self._target.end(left, "aborted")

    def begin_transaction(self) -> None:
        self._target.step()
        self._require()
        self._target.open[self._id] = Transaction()

    def produce(
        self, topic: str, value: bytes | None, *, key: bytes | None, partition: int,
        timestamp: int = 0, headers: Any = None, on_delivery: Callable[..., None] | None = None,
    ) -> None:  # fmt: skip
        self._target.step()
        self._require()
        if len(value or b"") > self._target.largest.get(topic, 1_000_000):
            self._waiting.append((on_delivery, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), -1))
            return
        transaction = self._target.open[self._id]
        transaction.places.add((topic, partition))
        log = self._target.logs[topic, partition]
        log.append(Entry(key, value, headers, timestamp, transaction))
        self._waiting.append((on_delivery, None, len(log) - 1))

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        self._target.step()
        waiting, self._waiting = self._waiting, []
        for on_delivery, error, offset in waiting:
            if on_delivery is not None:
                on_delivery(error, Message(None, offset))
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self._target.step()
        self._require()
        self.flush(timeout)
        self._target.end(self._target.open.pop(self._id), "committed")
        # A death behind the commit, before the caller knows of it.
        self._target.step()

    def abort_transaction(self, timeout: float) -> None:
        self._require()
        self._target.end(self._target.open.pop(self._id), "aborted")

    def _require(self) -> None:
        if self._epoch != self._target.epochs[self._id]:
            raise KafkaException(KafkaError(KafkaError._FENCED))


class FakeConsumer:
    """Tells the end of what it may read once, as the client does."""

    def __init__(self, target: FakeTarget, *, read_committed: bool) -> None:
        self._target = target
        self._read_committed = read_committed
        self._place = ("", 0)
        self._at = 0
        self._told_end = -1

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, len(self._target.logs[place.topic, place.partition])

    def assign(self, places: list[TopicPartition]) -> None:
        (place,) = places
        self._place = (place.topic, place.partition)
        self._at = 0 if place.offset == OFFSET_BEGINNING else place.offset

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert self._read_committed
        end = self._target.stable_end(self._place)
        found = [
            Message(entry, at)
            for at, entry in self._target.committed(*self._place)
            if self._at <= at < end
        ]
        self._at = max(self._at, end)
        if self._told_end != end:
            self._told_end = end
            found.append(Message(None, end, KafkaError(EOF)))
        return found

    def close(self) -> None:
        pass
