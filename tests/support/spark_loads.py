"""Records for loads: produced with all that a record has, and kept, to compare tables with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Producer

from tests.conformance.topics import make_topic

if TYPE_CHECKING:
    from highwater.spark.load_run import LoadRequest

FLUSH_TIMEOUT_S = 60
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000


def keeping_topic(bootstrap: str, name: str, *, partitions: int = 1) -> str:
    """Creates a topic that keeps records of years ago, as those of `send` are; returns its name."""
    return make_topic(bootstrap, name, partitions=partitions, configs={"retention.ms": "-1"})


class Sent(NamedTuple):
    """A record as a table has to have it; equal records are equal in all of it."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    value: bytes | None


def send(
    bootstrap: str, topic: str, values: Iterable[bytes | None], *, partition: int = 0
) -> list[Sent]:
    """Produces one record a value, half an hour apart, and returns them with their offsets."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    sent: list[Sent] = []

    for index, value in enumerate(values):
        time_ms = START_MS + index * HOUR_MS // 2
        key = None if index % 3 == 0 else b"k%d" % index
        headers = [("n", b"%d" % index)] if index % 2 else []

        def keep(
            error: Any, message: Any, made: tuple[Any, ...] = (time_ms, key, headers, value)
        ) -> None:
            assert error is None, error
            at, key, headers, value = made
            place = (message.topic(), message.partition(), message.offset())
            sent.append(Sent(*place, at, key, tuple(headers), value))

        producer.produce(
            topic,
            value,
            key,
            partition=partition,
            timestamp=time_ms,
            headers=headers,
            on_delivery=keep,
        )
        producer.poll(0)
    assert producer.flush(FLUSH_TIMEOUT_S) == 0
    return sorted(sent)


def request(
    bootstrap: str,
    table: Path,
    *topics: str,
    table_format: str = "delta",
    value_format: str = "raw",
    schema: str | None = None,
    **more: Any,
) -> LoadRequest:
    """Returns what to load, without files and command lines."""
    from highwater.spark.load_run import LoadRequest
    from highwater.spark.topic_range import ReadOptions
    from highwater.spark.value_format import FormatName, ValueFormat

    return LoadRequest(
        topics=topics,
        pattern=more.pop("pattern", None),
        table=str(table),
        table_format=table_format,
        value_format=ValueFormat(name=FormatName(value_format), schema=schema),
        read=ReadOptions(bootstrap=bootstrap, offsets_per_task=more.pop("per_task", None)),
        **more,
    )


def rows(spark: Any, table: Path, table_format: str = "delta") -> list[Sent]:
    """Returns a raw table's rows as they were sent, sorted; a row that is there twice, twice."""
    from pyspark.sql import functions as f

    from highwater.spark.tables import open_table

    found = open_table(spark, table_format, str(table)).read()
    # Milliseconds: PySpark would give timestamps in the machine's own zone.
    return sorted(
        Sent(
            row["topic"],
            row["partition"],
            row["offset"],
            row["ms"],
            None if row["key"] is None else bytes(row["key"]),
            tuple((each["key"], bytes(each["value"])) for each in row["headers"] or ()),
            None if row["value"] is None else bytes(row["value"]),
        )
        for row in found.withColumn("ms", f.unix_millis("timestamp")).collect()
    )


def assert_equal(spark: Any, loaded: LoadRequest, records: int) -> None:
    """An audit of the table finds so many records, and nothing that differs."""
    from highwater.spark.audit_run import AuditRequest, audit

    wanted = AuditRequest(
        table=loaded.table, table_format=loaded.table_format, read=loaded.read,
        quarantine=loaded.quarantine,
    )  # fmt: skip
    found = audit(spark, wanted)
    assert (found.different, found.offsets, found.uncompared, found.outside) == ((), (), (), ())
    assert found.records == records
