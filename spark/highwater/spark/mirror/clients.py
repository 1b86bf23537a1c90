"""Clients of the target, librdkafka's: how they are set up, and what their errors mean.

Spark's sink sets no timestamps and knows no transactions, so copies are written by producers of our own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from highwater.model.errors import HighwaterError, RetriableError, UsageError
from highwater.spark.topic_admin import REFUSALS, ClusterAway

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""A transaction that a kill left open holds readers of the copy up for so long, if nobody goes on with it."""

DELIVERY_TIMEOUT_MS: Final = 45_000
"""Below the transaction's, so that a record which cannot be delivered is what is told."""

REQUEST_BYTES_MAX: Final = 104_857_600
"""What brokers take in a request; whether a record is too large is for the topic to say."""

LOG_LEVEL: Final = 0
"""The clients log nothing: what matters becomes an error here."""


class MirrorTakenOver(RetriableError):
    """Another mirror writes the same copies; the newer one goes on."""

    reason = "MIRROR_TAKEN_OVER"


class CopyRefused(UsageError):
    """The target takes a topic or a record only if somebody changes something."""

    reason = "COPY_REFUSED"


class MirrorFailed(HighwaterError):
    """A copy could not be written; started again, the mirror goes on where it was."""

    reason = "MIRROR_FAILED"


class Trouble(StrEnum):
    """What an error of the target's asks for."""

    AWAY = "away"
    TAKEN_OVER = "taken over"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in a task, told by the driver: errors themselves do not come back from tasks whole."""

    trouble: Trouble
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetClients:
    """Makes clients of the target; goes to tasks. `settings` are librdkafka's, and win over ours."""

    bootstrap: str
    compression: str = "none"
    settings: Mapping[str, str] = field(default_factory=dict)

    def admin(self) -> Any:
        """Returns an AdminClient."""
        return self._made(AdminClient, {"socket.timeout.ms": 10_000, **self._shared()})

    def producer(self, transactional_id: str, batch_bytes: int) -> Any:
        """Returns a Producer, before `init_transactions`."""
        return self._made(
            Producer,
            {
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "message.max.bytes": REQUEST_BYTES_MAX,
                # A batch of small records must not be larger than the topic takes.
                "batch.size": batch_bytes,
                "compression.type": self.compression,
                **self._shared(),
                "transactional.id": transactional_id,
            },
        )

    def consumer(self, *, read_committed: bool) -> Any:
        """Returns a Consumer without a group, which tells the ends of partitions."""
        return self._made(
            Consumer,
            {
                # It has to have a name, and never uses it.
                "group.id": "highwater-mirror",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # Brokers answer at the end of a log after that time, and only then it is known.
                "fetch.wait.max.ms": 20,
                **self._shared(),
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
                "enable.partition.eof": True,
            },
        )

    def _made(self, kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
        try:
            return kind(settings)
        except KafkaException as error:
            raise error_of(failure(error.args[0], f"a client of {self.bootstrap}")) from error

    def _shared(self) -> dict[str, Any]:
        return {"log_level": LOG_LEVEL, **self.settings, "bootstrap.servers": self.bootstrap}


_TAKEN_OVER: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 # The client's own names for its own errors.
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_REFUSED: Final = REFUSALS | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 # As above.
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 # As above.
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
}
_AWAY: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 # As above.
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 # As above.
        KafkaError._TIMED_OUT,  # noqa: SLF001 # As above.
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 # As above.
        KafkaError._RESOLVE,  # noqa: SLF001 # As above.
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
    }
)


def failure(error: KafkaError, what: str) -> Failure:
    """Returns what an error of a client means; `what` is what the client was at."""
    code = error.code()
    if code in _TAKEN_OVER:
        return Failure(trouble=Trouble.TAKEN_OVER, text=f"{what}: another mirror writes it now")
    trouble = Trouble.FAILED
    if code in _REFUSED:
        trouble = Trouble.REFUSED
    elif code in _AWAY:
        trouble = Trouble.AWAY
    return Failure(trouble=trouble, text=f"{what}: {error.str()}")


def error_of(found: Failure) -> HighwaterError:
    """Returns the failure as an error to raise."""
    match found.trouble:
        case Trouble.AWAY:
            return ClusterAway(found.text)
        case Trouble.TAKEN_OVER:
            return MirrorTakenOver(found.text)
        case Trouble.REFUSED:
            return CopyRefused(found.text)
        case Trouble.FAILED:
            return MirrorFailed(found.text)
