"""Rows of a batch as records of a topic, by Spark's own Kafka sink.

Records come at least once: a batch that is repeated sends its records again. They are the same ones,
and later batches wait for it, so that in the end the latest value of each key is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession

DELIVERY_TIMEOUT_MS: Final = 120_000
_SCHEMA: Final = "key string, value string"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """Where to send; `kafka` as in `stream_source.StreamSource`."""

    bootstrap: str
    topic: str
    kafka: Mapping[str, str] = field(default_factory=dict)


def send(rows: DataFrame, sink: TopicSink) -> None:
    """Sends rows of `key` and `value`, in their order; a value that is null is a tombstone."""
    # One task: the order within a key is that of the rows.
    action = rows.select("key", "value").coalesce(1).write.format("kafka")
    action.options(
        **{
            "kafka.delivery.timeout.ms": str(DELIVERY_TIMEOUT_MS),
            **sink.kafka,
            "kafka.bootstrap.servers": sink.bootstrap,
            "topic": sink.topic,
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
        }
    ).save()


def send_pairs(
    spark: SparkSession, pairs: Sequence[tuple[str, str | None]], sink: TopicSink
) -> None:
    """Sends keys and values, in their order."""
    if pairs:
        send(spark.createDataFrame(list(pairs), _SCHEMA), sink)
