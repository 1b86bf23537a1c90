"""Topics as data frames, through Spark's own Kafka connector (`format("kafka")`).

Options are those of Spark's "Structured Streaming + Kafka Integration Guide"; options with the
prefix `kafka.` go to the connector's Kafka clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

REQUEST_TIMEOUT_MS: Final = 30_000
POLL_TIMEOUT_MS: Final = 60_000
"""How long a task waits for records, which must exist, before it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """What to read: a topic from its beginning to its end at the time the job starts.

    With `headers`, only records with all of these headers are read; values are UTF-8. Of transactions only
    what was committed is read, unless `read_committed` is false. `kafka` has more options for the
    connector's Kafka clients; their names begin with `kafka.`.
    """

    bootstrap: str
    topic: str
    headers: Mapping[str, str] = field(default_factory=dict)
    read_committed: bool = True
    kafka: Mapping[str, str] = field(default_factory=dict)


def read_options(source: TopicSource) -> dict[str, str]:
    """Returns the connector's options for a batch read."""
    return {
        "kafka.isolation.level": "read_committed" if source.read_committed else "read_uncommitted",
        "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "kafka.default.api.timeout.ms": str(POLL_TIMEOUT_MS),
        **source.kafka,
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topic,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "includeHeaders": "true" if source.headers else "false",
        # Fail rather than report on a part of the data.
        "failOnDataLoss": "true",
        "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS),
    }


def read_topic(spark: SparkSession, source: TopicSource) -> DataFrame:
    """Returns the topic's records: key, value, topic, partition, offset, timestamp."""
    records = spark.read.format("kafka").options(**read_options(source)).load()
    return with_headers(records, source.headers).drop("headers", "timestampType")


def with_headers(rows: DataFrame, headers: Mapping[str, str]) -> DataFrame:
    """Returns the rows with all of these headers."""
    for name, value in headers.items():
        wanted = f.struct(f.lit(name).alias("key"), f.lit(value).cast("binary").alias("value"))
        rows = rows.where(f.array_contains(f.col("headers"), wanted))
    return rows
