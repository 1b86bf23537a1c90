"""A transactional producer that is replaced when it cannot go on, and then knows what is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.robustness.faults.client_settings import quiet_logger
from tests.robustness.faults.transactions.ledger import Outcome

TRANSACTION_TIMEOUT_S = 30.0
CALL_S = 15.0
"""The time limit of one call of the library; calls that may be repeated are."""
PATIENCE_S = 60.0
"""How long one operation is repeated: longer than any fault and what follows it."""
STOP_S_MAX = 20.0
"""How long a client that is to end is waited for; it may be in the middle of an operation."""


class TransactionalClient(Protocol):
    """Carries out transactions one after the other, for one transactional id."""

    replaced: list[str]
    """The errors for which clients were replaced by new ones."""

    def transact(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        """Writes (partition, value) pairs in one transaction, and commits or aborts it."""

    def close(self) -> None:
        """Ends whatever is still open."""


class LibrdkafkaClient:
    """confluent-kafka. A client that has a fatal error, or whose calls fail for too long, is replaced
    by one with the same transactional id. Implements `TransactionalClient`."""

    def __init__(
        self,
        clients: Mapping[str, Any],
        topic: str,
        transactional_id: str,
        *,
        timeout_s: float = TRANSACTION_TIMEOUT_S,
    ) -> None:
        self._settings = {**clients, **producer_settings(transactional_id, timeout_s)}
        self._topic = topic
        self._producer: Producer | None = None
        self.replaced: list[str] = []

    def transact(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        producer = self._ready()
        asked_to_commit = False
        try:
            producer.begin_transaction()
            for partition, value in records:
                producer.produce(self._topic, value, partition=partition)
            if abort:
                producer.flush(CALL_S)  # Most aborted records shall be in the log.
                persist(producer.abort_transaction)
                return Outcome.ABORTED
            asked_to_commit = True
            persist(producer.commit_transaction)
            return Outcome.COMMITTED
        except KafkaException as error:
            if aborts(producer, error):
                return Outcome.ABORTED
            self.replaced.append(str(error))
            self._producer = None
            # The next one ends what is open; before that nothing is certain.
            self._ready()
            return Outcome.UNKNOWN if asked_to_commit else Outcome.ABORTED

    def hold(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Writes the records of a transaction, and leaves it open. Raises KafkaException."""
        producer = self._ready()
        producer.begin_transaction()
        for partition, value in records:
            producer.produce(self._topic, value, partition=partition)
        assert producer.flush(CALL_S) == 0, "the records were not written"

    def close(self) -> None:
        self._producer = None

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = initialized(self._settings)
        return self._producer


def producer_settings(
    transactional_id: str, timeout_s: float = TRANSACTION_TIMEOUT_S
) -> dict[str, Any]:
    """What all transactional producers of these tests have in common."""
    return {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": int(timeout_s * 1000),
        "linger.ms": 1,
        "logger": quiet_logger(),
    }


def initialized(settings: Mapping[str, Any]) -> Producer:
    """A new producer, whose transactional id is its own. Raises KafkaException."""
    producer = Producer(dict(settings))
    persist(producer.init_transactions)
    return producer


def persist(call: Callable[[float], None]) -> None:
    """Repeats a call of the transactional API for as long as that makes sense. Raises KafkaException."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call(CALL_S)
            return
        except KafkaException as error:
            if not _of(error).retriable() or time.monotonic() > deadline_s:
                raise


def aborts(producer: Producer, error: KafkaException) -> bool:
    """Aborts the transaction if that is what the error asks for; whether that has been done."""
    if not _of(error).txn_requires_abort():
        return False
    try:
        persist(producer.abort_transaction)
    except KafkaException:
        return False
    return True


def _of(error: KafkaException) -> KafkaError:
    found = error.args[0]
    assert isinstance(found, KafkaError)
    return found
