"""An offsets topic: read to its end, and the claims of copies that the driver writes into it.

Its end is not where a read_committed consumer stops: behind a transaction that is open there may be syncs of
other partitions. Who asks where a partition stands waits until that transaction has ended.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from highwater.spark.mirror.clients import (
    TRANSACTION_TIMEOUT_MS,
    Failure,
    TargetClients,
    Trouble,
    error_of,
    failure,
)
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import (
    Copy,
    OffsetRecord,
    Withdrawn,
    key_of,
    parse,
    value_of,
)

CLIENT_TIMEOUT_S: Final = 30.0

OPEN_WAIT_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 30
"""The coordinator ends a transaction that nobody goes on with; brokers look for those every ten seconds."""

FENCE_AFTER_S: Final = 2.0
"""How long the driver waits for a transaction that a living task may be about to end."""

BATCH_BYTES: Final = 1_000_000
_POLL_S: Final = 0.05
"""`consume` takes as long also when something has come."""
_MESSAGES_MAX: Final = 1000
_PARTITION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Records of an offsets topic, and the offset behind them. `is_whole`: none was there behind these."""

    records: tuple[OffsetRecord, ...]
    next: int
    is_whole: bool


def read_part(clients: TargetClients, topic: str, start: int, *, wait_s: float) -> LogPart:
    """Returns what is committed in an offsets topic from `start` on.

    Waits up to `wait_s` for transactions that are open. Raises ClusterAway, CopyRefused, MirrorFailed, and
    OffsetsUnreadable.
    """
    what = f"offsets topic {topic} at {clients.bootstrap}"
    try:
        end = _end(clients, topic)
        if start >= end:
            return LogPart(records=(), next=start, is_whole=True)
        consumer = clients.consumer(read_committed=True)
        try:
            consumer.assign([TopicPartition(topic, _PARTITION, start or OFFSET_BEGINNING)])
            return _read(consumer, start, end, what, wait_s=wait_s)
        finally:
            consumer.close()
    except KafkaException as error:
        raise error_of(failure(error.args[0], what)) from error


def _end(clients: TargetClients, topic: str) -> int:
    consumer = clients.consumer(read_committed=False)
    try:
        place = TopicPartition(topic, _PARTITION)
        _, high = consumer.get_watermark_offsets(place, timeout=CLIENT_TIMEOUT_S)
        return int(high)
    finally:
        consumer.close()


def _read(consumer: Any, start: int, end: int, what: str, *, wait_s: float) -> LogPart:
    found: list[OffsetRecord] = []
    reached = start
    # Open transactions count from the last record that came: reading a long topic is no wait.
    heard_s = time.monotonic()
    at_stable_end = False
    while reached < end:
        messages = consumer.consume(_MESSAGES_MAX, timeout=_POLL_S)
        for message in messages:
            error = message.error()
            if error is None:
                found.append(parse(message.key(), message.value()))
                reached = message.offset() + 1
                at_stable_end = False
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 # Its public name.
                reached = message.offset()
                at_stable_end = True
            else:
                raise KafkaException(error)
        if messages:
            heard_s = time.monotonic()
        waited_s = time.monotonic() - heard_s
        if at_stable_end and reached < end and waited_s >= wait_s:
            return LogPart(records=tuple(found), next=reached, is_whole=False)
        if not at_stable_end and waited_s >= CLIENT_TIMEOUT_S:
            raise error_of(Failure(trouble=Trouble.AWAY, text=f"{what}: it does not answer"))
    return LogPart(records=tuple(found), next=reached, is_whole=True)


class OffsetLog:
    """The offsets topic of one source, as its driver sees it; one owner, for as long as the mirror runs."""

    def __init__(self, clients: TargetClients, topic: str) -> None:
        self.known = OffsetMap()
        self.next = 0
        """The offset up to which `known` has it."""
        self._clients = clients
        self._topic = topic
        self._claims_id = f"{topic}.claims"

    def catch_up(self, ids: Sequence[str]) -> None:
        """Reads what is new.

        If a transaction is open, drivers and tasks that write under these transactional `ids` are fenced,
        which aborts what they left open. Raises what `read_part` raises, and MirrorFailed.
        """
        if self._take(FENCE_AFTER_S):
            return
        for each in (self._claims_id, *ids):
            self._fence(each)
        if not self._take(OPEN_WAIT_S):
            text = f"a transaction in {self._topic} stays open: who writes it is no mirror of these topics"
            raise error_of(Failure(trouble=Trouble.FAILED, text=text))

    def write(self, records: Sequence[Copy | Withdrawn]) -> None:
        """Writes claims of copies, or takes them back. Raises ClusterAway, CopyRefused, MirrorFailed."""
        what = f"offsets topic {self._topic}"
        # A transaction, so that all of them are there or none; nobody else has this id.
        producer = self._clients.producer(self._claims_id, BATCH_BYTES)
        try:
            producer.init_transactions(CLIENT_TIMEOUT_S)
            producer.begin_transaction()
            for each in records:
                producer.produce(
                    self._topic, value_of(each), key=key_of(each), partition=_PARTITION
                )
            producer.commit_transaction(CLIENT_TIMEOUT_S)
        except KafkaException as error:
            raise error_of(failure(error.args[0], what)) from error

    def _take(self, wait_s: float) -> bool:
        part = read_part(self._clients, self._topic, self.next, wait_s=wait_s)
        self.known.apply(part.records)
        self.next = part.next
        return part.is_whole

    def _fence(self, transactional_id: str) -> None:
        try:
            self._clients.producer(transactional_id, BATCH_BYTES).init_transactions(
                CLIENT_TIMEOUT_S
            )
        except KafkaException as error:
            raise error_of(
                failure(error.args[0], f"transactional id {transactional_id}")
            ) from error
