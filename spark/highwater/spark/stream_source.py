"""A topic as a stream, through Spark's own Kafka connector.

How far a stream has read is in its checkpoint, so starting offsets matter to its first start only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from highwater.model.errors import UsageError
from highwater.spark.brokers import Brokers, TopicPartition

REQUEST_TIMEOUT_MS: Final = 30_000
POLL_TIMEOUT_MS: Final = 60_000
"""How long a task waits for records, which must exist, before it fails."""

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSource:
    """What to read.

    `starting` is `earliest`, `latest`, or a time in ms since 1970: the first record of each partition
    at or after it. Or it is the offset of each partition, and has all of them. At most `offsets_per_batch` are read at once, over all partitions together and in
    proportion to what each has; None reads all there is.
    """

    bootstrap: str
    topic: str
    starting: str | int | Mapping[int, int] = EARLIEST
    offsets_per_batch: int | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)
    """More options for the connector's Kafka clients; their names begin with `kafka.`."""


def parse_starting(text: str) -> str | int:
    """Returns `earliest`, `latest`, or the ms of a time in ISO 8601, UTC if it has no zone.

    Raises UsageError.
    """
    if text in {EARLIEST, LATEST}:
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--from wants earliest, latest or a time, not {text!r}") from error
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def resolve_starting(brokers: Brokers, source: StreamSource, partitions: int) -> dict[int, int]:
    """Returns the offset of each partition that `starting` means now, as the connector finds them.

    Raises what `Brokers` raises.
    """
    if isinstance(source.starting, Mapping):
        return dict(source.starting)
    asked = [TopicPartition(source.topic, number) for number in range(partitions)]
    if source.starting == EARLIEST:
        return {place.partition: offset for place, offset in brokers.earliest(asked).items()}
    # Before the times: a record that comes in between is at or behind this end, so that it is read.
    found = brokers.latest(asked)
    if isinstance(source.starting, int):
        # A time may point into a transaction that is open, beyond what is read now.
        for place, offset in brokers.at_time(asked, source.starting).items():
            found[place] = min(offset, found[place])
    return {place.partition: offset for place, offset in found.items()}


def stream_options(source: StreamSource) -> dict[str, str]:
    """Returns the connector's options for a stream."""
    options = {
        # Of a transaction, only what was committed.
        "kafka.isolation.level": "read_committed",
        "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "kafka.default.api.timeout.ms": str(POLL_TIMEOUT_MS),
        **source.kafka,
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topic,
        # Stop rather than go on behind a hole.
        "failOnDataLoss": "true",
        "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS),
    }
    if isinstance(source.starting, int):
        options["startingTimestamp"] = str(source.starting)
        # A partition without a record so late is read from its end.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    elif isinstance(source.starting, Mapping):
        offsets = {str(number): offset for number, offset in source.starting.items()}
        options["startingOffsets"] = json.dumps({source.topic: offsets})
    else:
        options["startingOffsets"] = source.starting
    if source.offsets_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(source.offsets_per_batch)
    return options


def read_stream(spark: SparkSession, source: StreamSource, *, headers: bool = False) -> DataFrame:
    """Returns the stream of records: key, value, topic, partition, offset, timestamp; headers if wanted."""
    reader = spark.readStream.format("kafka").options(**stream_options(source))
    return reader.option("includeHeaders", headers).load().drop("timestampType")
