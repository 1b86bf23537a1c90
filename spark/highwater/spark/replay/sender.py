"""Lines of a log into a topic, each record with the line's own time as its timestamp."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from highwater.model.errors import HighwaterError, UsageError
from highwater.spark.replay.pace import Pace
from highwater.spark.replay.sample import LogLine

DELIVERY_TIMEOUT_S: Final = 120.0
FULL_QUEUE_WAIT_S: Final = 1.0
FULL_QUEUE_TRIES_MAX: Final = 120
"""As long as a record may take to be delivered: the queue has moved by then, or failed."""

PAUSE_S_MAX: Final = 0.2
"""How long one wait for a line's time lasts, so that acknowledgements and signals are served."""

TELL_S: Final = 1.0


class ReplayFailed(HighwaterError):
    """A record was refused, or not acknowledged in time."""

    reason = "REPLAY_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What is acknowledged so far; `time_ms` is the time of the last line that was sent."""

    records: int
    size_bytes: int
    time_ms: int | None
    elapsed_s: float

    @property
    def records_per_s(self) -> float:
        """The mean since the start."""
        return self.records / self.elapsed_s if self.elapsed_s > 0 else 0.0


class Sender:
    """One replay into one topic. Acknowledged records stay in order within a client's requests."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        compression: str,
        keyed: bool,
        kafka: Mapping[str, str] | None = None,
    ) -> None:
        """Use more settings of the client, `kafka`. Raises UsageError for one that it refuses."""
        self._topic = topic
        self._keyed = keyed
        settings = {
            "linger.ms": 20,
            "message.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            **(kafka or {}),
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": True,
            "compression.type": compression,
            # As Java's producers do it, so that keys meet those of other writers.
            "partitioner": "murmur2_random",
        }
        try:
            self._producer: Any = Producer(settings)
        except KafkaException as error:
            raise UsageError(f"--compression or --kafka: {error.args[0].str()}") from error
        self._failure: str | None = None
        self._records = 0
        self._size_bytes = 0
        self._time_ms: int | None = None
        self._started_s = time.monotonic()

    @property
    def sent(self) -> Sent:
        """How far it is."""
        return Sent(
            records=self._records,
            size_bytes=self._size_bytes,
            time_ms=self._time_ms,
            elapsed_s=time.monotonic() - self._started_s,
        )

    def send_all(
        self,
        lines: Iterable[LogLine],
        pace: Pace,
        *,
        stopping: Callable[[], bool],
        tell: Callable[[Sent], None],
    ) -> Sent:
        """Sends lines until they or `stopping` end it, waits for their acknowledgements.

        Calls `tell` about once a second. Raises ReplayFailed.
        """
        told_s = 0.0
        self._started_s = time.monotonic()
        for line in lines:
            while not stopping():
                elapsed_s = time.monotonic() - self._started_s
                if elapsed_s - told_s >= TELL_S:
                    told_s = elapsed_s
                    tell(self.sent)
                wait_s = pace.wait_s(line.time_ms, elapsed_s)
                if wait_s == 0:
                    break
                self._producer.poll(min(wait_s, PAUSE_S_MAX))
            if stopping():
                break
            self._send(line)
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        self._check()
        if left:
            raise ReplayFailed(f"{left} records into {self._topic} were not acknowledged in time")
        return self.sent

    def _send(self, line: LogLine) -> None:
        for _ in range(FULL_QUEUE_TRIES_MAX):
            try:
                self._producer.produce(
                    self._topic,
                    line.value,
                    key=line.client.encode("utf-8", "surrogateescape") if self._keyed else None,
                    timestamp=line.time_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(FULL_QUEUE_WAIT_S)
            except KafkaException as error:
                raise ReplayFailed(f"{self._topic}: {error.args[0].str()}") from error
            else:
                self._time_ms = line.time_ms
                self._producer.poll(0)
                self._check()
                return
            self._check()
        raise ReplayFailed(f"no record into {self._topic} was acknowledged in time")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failure = self._failure or str(error.str())
            return
        self._records += 1
        self._size_bytes += len(message)

    def _check(self) -> None:
        if self._failure is not None:
            raise ReplayFailed(f"a record into {self._topic} was refused: {self._failure}")
