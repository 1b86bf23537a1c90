"""The off-line load on a real broker: every record once, and what happens to topics told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from highwater.spark.brokers import TopicMissing
from highwater.spark.load_run import FormatChanged, LoadRun
from highwater.spark.load_summary import summarize
from highwater.spark.tables import TableFormat, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import TableConflict
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.spark_loads import HOUR_MS, START_MS, keeping_topic, request, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.spark.load_run import LoadRequest, LoadResult

pytestmark = pytest.mark.spark

ADMIN_TIMEOUT_S = 30
FORMATS = [
    TableFormat.DELTA,
    pytest.param(TableFormat.ICEBERG, marks=pytest.mark.full),
    pytest.param(TableFormat.PARQUET, marks=pytest.mark.full),
]


def load(spark: SparkSession, wanted: LoadRequest) -> LoadResult:
    return LoadRun(spark, wanted, lambda _: None).run()


@pytest.mark.parametrize("table_format", FORMATS)
def test_every_record_once_and_then_what_is_new(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("load"), partitions=2)
    sent = send(cluster.bootstrap, topic, [b"a", None, b"", b"\xff\x00", b"e"])
    sent += send(cluster.bootstrap, topic, [b"x"], partition=1)
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, topic, table_format=table_format, per_task=2)
    first = load(spark, wanted)
    assert (first.records, first.offsets, first.lag, first.version) == (6, 6, 0, 0)
    assert rows(spark, table, table_format) == sent

    assert load(spark, wanted).version is None
    sent += send(cluster.bootstrap, topic, [b"later"], partition=1)
    second = load(spark, wanted)
    assert (second.records, second.version) == (1, 1)
    assert rows(spark, table, table_format) == sorted(sent)

    found = open_table(spark, table_format, str(table)).read()
    hours = {(str(row["date"]), row["hour"]) for row in found.collect()}
    assert hours == {("2023-11-14", 22), ("2023-11-14", 23), ("2023-11-15", 0)}


def test_values_that_do_not_fit_go_to_the_quarantine(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("json"))
    good = [b'{"a": 1, "b": "x"}', b'{"b": "only"}', None]
    bad = [b"", b"{", b'{"a": "no number"}', b"\xff"]
    send(cluster.bootstrap, topic, [*good, *bad])
    wanted = request(
        cluster.bootstrap, tmp_path / "table", topic, value_format="json", schema="a int, b string"
    )
    result = load(spark, wanted)
    assert (result.records, result.bad) == (7, 4)
    table = open_table(spark, "delta", wanted.table).read().orderBy("offset").collect()
    assert [row["value"] and row["value"].asDict() for row in table] == [
        {"a": 1, "b": "x"},
        {"a": None, "b": "only"},
        None,
    ]
    quarantine = open_table(spark, "delta", wanted.quarantine_path).read().orderBy("offset")
    found = [(row["offset"], bytes(row["value"]), row["error"]) for row in quarantine.collect()]
    assert found == [
        (3, b"", "not JSON of the schema"),
        (4, b"{", "not JSON of the schema"),
        (5, b'{"a": "no number"}', "not JSON of the schema"),
        (6, b"\xff", "not UTF-8"),
    ]
    there = summarize(spark, wanted)
    assert (there.rows, there.bad_rows) == (3, 4)
    assert [each.rows for each in there.hours] == [2, 1]
    assert [each.rows for each in there.bad_hours] == [1, 2, 1]
    assert {each.error: each.rows for each in there.complaints} == {
        "not JSON of the schema": 3,
        "not UTF-8": 1,
    }
    assert [(each.offset, each.value) for each in there.newest_bad] == [
        (6, "\ufffd"), (5, '{"a": "no number"}'), (4, "{"), (3, ""),
    ]  # fmt: skip
    with pytest.raises(FormatChanged, match="another schema"):
        load(
            spark,
            request(
                cluster.bootstrap, tmp_path / "table", topic, value_format="json", schema="a int"
            ),
        )


def test_what_retention_took_is_told(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("gone"))
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, topic)
    sent = send(cluster.bootstrap, topic, [b"a", b"b"])
    load(spark, wanted)
    later = send(cluster.bootstrap, topic, [b"c", b"d", b"e"])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_records([Place(topic, 0, 4)]).values():
        done.result(ADMIN_TIMEOUT_S)
    result = load(spark, wanted)
    assert [(each.start, each.end) for each in result.gone] == [(2, 4)]
    assert "2 offsets" in result.told[0]
    assert rows(spark, table) == [*sent, later[-1]]


@pytest.mark.full
def test_partitions_are_added_and_a_topic_is_made_anew(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("anew"))
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, pattern=f"{topic}.*")
    sent = send(cluster.bootstrap, topic, [b"a", b"b"])
    load(spark, wanted)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(ADMIN_TIMEOUT_S)
    other = keeping_topic(cluster.bootstrap, f"{topic}-2")
    sent += send(cluster.bootstrap, topic, [b"c"], partition=1)
    sent += send(cluster.bootstrap, other, [b"d"])
    assert "new partition 1" in load(spark, wanted).told[0]
    assert rows(spark, table) == sorted(sent)

    admin.delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S)
    keeping_topic(cluster.bootstrap, topic)
    sent += send(cluster.bootstrap, topic, [b"new"])
    assert "made anew" in load(spark, wanted).told[0]
    assert rows(spark, table) == sorted(sent)
    ids = {row["topic_id"] for row in open_table(spark, "delta", str(table)).read().collect()}
    assert len(ids) == 3


@pytest.mark.full
@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_a_range_is_loaded_anew(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("again"))
    table = tmp_path / "table"
    sent = send(cluster.bootstrap, topic, [b"%d" % number for number in range(8)])
    load(spark, request(cluster.bootstrap, table, topic, table_format=table_format))
    more = send(cluster.bootstrap, topic, [b"late"])
    anew = request(
        cluster.bootstrap, table, topic, table_format=table_format,
        from_ms=START_MS + HOUR_MS, replace=True,
    )  # fmt: skip
    result = load(spark, anew)
    # From offset 2 on, which is an hour after the first record; offset 8 has an older timestamp.
    assert (result.offsets, result.records) == (7, 7)
    assert rows(spark, table, table_format) == sorted(sent + more)


@pytest.mark.full
def test_transactions_that_were_aborted_are_not_loaded(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic = keeping_topic(cluster.bootstrap, unique_name("txn"))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for name, end in (("kept", producer.commit_transaction), ("not", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, name)
        producer.flush(ADMIN_TIMEOUT_S)
        end()
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(ADMIN_TIMEOUT_S)
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, topic)
    result = load(spark, wanted)
    # Two records and two markers; the open transaction is beyond the last stable offset.
    assert (result.records, result.offsets, result.lag) == (1, 4, 0)
    producer.commit_transaction()
    assert load(spark, wanted).records == 1
    assert [each.value for each in rows(spark, table)] == [b"kept", b"open"]


def test_a_second_run_says_so_and_a_missing_topic_is_told(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    wanted = request(cluster.bootstrap, tmp_path / "table", "no-such-topic")
    with hold(wanted.table, "load"), pytest.raises(TableConflict, match="another process"):
        load(spark, wanted)
    with pytest.raises(TopicMissing, match="no-such-topic"):
        load(spark, wanted)
    assert not open_table(spark, "delta", wanted.table).exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("value_format", "schema", "good", "bad"),
    [
        ("text", None, "ä".encode(), b"\xe4"),
        ("csv", "a int, b string", b"1,x", b"y,x"),
        (
            "avro",
            json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}),
            b"\x06",
            b"",
        ),
        (
            "combined-log",
            None,
            b'h - u [02/Jan/2024:05:00:00 +0000] "GET /a?b HTTP/1.1" 200 7 "-" "-"',
            b"nothing",
        ),
    ],
)
def test_every_format(
    cluster: Cluster, spark: SparkSession, tmp_path: Path,
    value_format: str, schema: str | None, good: bytes, bad: bytes,
) -> None:  # fmt: skip
    expected = {
        "text": "ä", "csv": (1, "x"), "avro": (3,),
        "combined-log": ("h", "u", "GET /a?b HTTP/1.1", "/a", 200, 7, good.decode("latin-1")),
    }[value_format]  # fmt: skip
    topic = keeping_topic(cluster.bootstrap, unique_name(value_format))
    send(cluster.bootstrap, topic, [good, bad])
    wanted = request(
        cluster.bootstrap, tmp_path / "t", topic, value_format=value_format, schema=schema
    )
    assert load(spark, wanted).bad == 1
    (row,) = open_table(spark, "delta", wanted.table).read().collect()
    value = row["value"]
    if value_format == "combined-log":
        value = tuple(value[name] for name in value.__fields__ if name != "time")
    assert value == expected
    (left,) = open_table(spark, "delta", wanted.quarantine_path).read().collect()
    assert (left["offset"], bytes(left["value"])) == (1, bad)


def test_offsets_of_the_brokers(cluster: Cluster, spark: SparkSession) -> None:
    from highwater.spark.brokers import Brokers, TopicPartition

    topic = keeping_topic(cluster.bootstrap, unique_name("offsets"), partitions=2)
    send(cluster.bootstrap, topic, [b"a", b"b", b"c"])
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Brokers(spark, cluster.bootstrap) as brokers:
        assert brokers.topics([topic])[topic].partitions == 2
        assert brokers.earliest(places) == {places[0]: 0, places[1]: 0}
        assert brokers.latest(places) == {places[0]: 3, places[1]: 0}
        assert brokers.at_time(places, START_MS + 1) == {places[0]: 1}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = admin.list_offsets({Place(topic, 0): OffsetSpec.latest()})
    assert asked[Place(topic, 0)].result(ADMIN_TIMEOUT_S).offset == 3
