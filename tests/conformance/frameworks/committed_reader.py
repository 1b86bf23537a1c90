"""A read_committed consumer that keeps all that it has read, in order."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_POLL_S = 0.2
_MESSAGES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, without what these tests do not look at."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class CommittedReader:
    """Reads a topic from its beginning, as a consumer without a group."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.records: list[Record] = []
        """All records read so far; those of one partition are in order."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])

    def read(self) -> list[Record]:
        """Reads what is there now; returns all records so far."""
        for message in self._consumer.consume(_MESSAGES_MAX, timeout=_POLL_S):
            error = message.error()
            if error is not None:
                _raise_unless_passing(error)
                continue
            self.records.append(
                Record(
                    partition=message.partition(),
                    offset=message.offset(),
                    key=message.key(),
                    value=message.value(),
                )
            )
        return self.records

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()


def _raise_unless_passing(error: KafkaError) -> None:
    """A node that was killed refuses connections; that passes."""
    passing = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
    if error.code() not in passing:
        raise KafkaException(error)
