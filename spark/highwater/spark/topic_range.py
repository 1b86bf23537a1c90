"""Ranges of offsets of topics as data frames: exactly these records, once each."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from highwater.spark.topic import POLL_TIMEOUT_MS, REQUEST_TIMEOUT_MS

RECORD: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
"""The columns that the connector gives, as DDL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Records of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets; not all need to have a record."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How topics are read: the brokers, the isolation level, and the connector's own options."""

    bootstrap: str
    read_committed: bool = True
    offsets_per_task: int | None = None
    """At most so many offsets go to one task; None: one task for each topic partition."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """More options for the connector's Kafka clients; their names begin with `kafka.`."""


def range_options(ranges: Sequence[OffsetRange], options: ReadOptions) -> dict[str, str]:
    """Returns the connector's options for a batch of ranges, which are not empty."""
    found = {
        "kafka.isolation.level": "read_committed" if options.read_committed else "read_uncommitted",
        "kafka.request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "kafka.default.api.timeout.ms": str(POLL_TIMEOUT_MS),
        **options.kafka,
        "kafka.bootstrap.servers": options.bootstrap,
        "assign": json.dumps(_partitions(ranges)),
        "startingOffsets": json.dumps(_offsets(ranges, ends=False)),
        "endingOffsets": json.dumps(_offsets(ranges, ends=True)),
        "includeHeaders": "true",
        # A record of the range that is gone ends the job; it is never left out in silence.
        "failOnDataLoss": "true",
        "kafkaConsumer.pollTimeoutMs": str(POLL_TIMEOUT_MS),
    }
    if options.offsets_per_task is not None:
        found["maxRecordsPerPartition"] = str(options.offsets_per_task)
    return found


def read_ranges(
    spark: SparkSession, ranges: Iterable[OffsetRange], options: ReadOptions
) -> DataFrame:
    """Returns the records of the ranges, with the columns of RECORD."""
    wanted = [each for each in ranges if each.offsets > 0]
    if not wanted:
        return spark.createDataFrame([], RECORD)
    return spark.read.format("kafka").options(**range_options(wanted, options)).load()


def _partitions(ranges: Sequence[OffsetRange]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in ranges:
        found.setdefault(each.topic, []).append(each.partition)
    return found


def _offsets(ranges: Sequence[OffsetRange], *, ends: bool) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in ranges:
        found.setdefault(each.topic, {})[str(each.partition)] = each.end if ends else each.start
    return found
