"""The off-line load on a real broker: every record once, and what happens to topics told."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from highwater.spark import task_progress
from highwater.spark.brokers import Brokers, BrokersAway, BrokersRefuse, TopicMissing
from highwater.spark.load_run import FormatChanged, LoadRun, QuarantineTaken
from highwater.spark.load_summary import summarize
from highwater.spark.tables import TableFormat, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import TableConflict
from highwater.spark.value_format import SchemaUnusable
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


def left(spark: SparkSession, wanted: LoadRequest) -> list[int]:
    """Offsets of the values in quarantine."""
    found = open_table(spark, wanted.table_format, wanted.quarantine_path).read()
    return sorted(row["offset"] for row in found.collect())


@pytest.mark.full
def test_another_loads_quarantine_is_refused_before_anything_is_committed(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("taken"))
    send(cluster.bootstrap, topic, [b"a", b"\xff"])
    wanted = request(cluster.bootstrap, tmp_path / "table", topic, value_format="text")
    load(spark, wanted)
    # What was there after the first version comes back later, as a backup does.
    shutil.copytree(tmp_path / "table", tmp_path / "backup")
    send(cluster.bootstrap, topic, [b"\xfe"])
    load(spark, wanted)
    assert left(spark, wanted) == [1, 2]

    shutil.rmtree(tmp_path / "table")
    with pytest.raises(QuarantineTaken, match="values of another load"):
        load(spark, wanted)
    assert not open_table(spark, "delta", wanted.table).exists()
    fresh = replace(wanted, quarantine=str(tmp_path / "fresh"))
    assert load(spark, fresh).bad == 2
    assert left(spark, fresh) == [1, 2]
    # A second table does not share it.
    with pytest.raises(QuarantineTaken, match="values of another load"):
        load(spark, replace(fresh, table=str(tmp_path / "second")))

    shutil.rmtree(tmp_path / "table")
    shutil.copytree(tmp_path / "backup", tmp_path / "table")
    with pytest.raises(QuarantineTaken, match=r"has version 1 of a load into .*, which has 0"):
        load(spark, wanted)
    assert [row["offset"] for row in open_table(spark, "delta", wanted.table).read().collect()] == [
        0
    ]


@pytest.mark.full
def test_loads_that_come_to_share_a_quarantine_lose_nothing(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Both find it empty, so neither is refused."""
    shared = str(tmp_path / "shared")
    topics = [keeping_topic(cluster.bootstrap, unique_name("shared")) for _ in range(2)]
    both = [
        request(
            cluster.bootstrap, tmp_path / topic, topic, value_format="text", quarantine=shared
        )
        for topic in topics
    ]  # fmt: skip
    for topic, wanted in zip(topics, both, strict=True):
        send(cluster.bootstrap, topic, [b"good"])
        load(spark, wanted)
    for topic, wanted in zip(topics, both, strict=True):
        send(cluster.bootstrap, topic, [b"\xff"])
        assert load(spark, wanted).version == 1
    assert left(spark, both[0]) == [1, 1]


class Forgetting(Brokers):
    """They answer once what there is to load, and never again."""

    error: Exception = BrokersAway("gone")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_known = False

    def topics(self, *args: Any) -> Any:
        if self.is_known:
            raise self.error
        self.is_known = True
        return super().topics(*args)


class Refusing(Forgetting):
    """They let nobody in any more behind the commit."""

    error = BrokersRefuse("the login was withdrawn")


class Unwritable:
    """A table that nothing more is committed to."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, *_: Any, **__: Any) -> bool:
        raise TableConflict("not now")


def take_away(bootstrap: str, topic: str, before: int) -> None:
    """As retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([Place(topic, 0, before)]).values():
        done.result(ADMIN_TIMEOUT_S)


@pytest.mark.full
def test_what_is_gone_is_in_the_result_whatever_fails_after_the_commit(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("after"))
    wanted = request(cluster.bootstrap, tmp_path / "table", topic, value_format="text")
    send(cluster.bootstrap, topic, [b"a"])
    load(spark, wanted)
    send(cluster.bootstrap, topic, [b"b", b"\xff"])
    take_away(cluster.bootstrap, topic, 2)

    def opened(session: Any, name: str, path: str, **more: Any) -> Any:
        made = open_table(session, name, path, **more)
        return Unwritable(made) if path == wanted.quarantine_path else made

    with pytest.raises(TableConflict, match="not now"):
        LoadRun(spark, wanted, lambda _: None, opened).run()
    result = load(spark, wanted)
    assert [(each.start, each.end) for each in result.gone] == [(1, 2)]
    assert (result.version, left(spark, wanted)) == (None, [2])
    assert load(spark, wanted).gone == ()

    # What did not fit is gone before it is in quarantine.
    send(cluster.bootstrap, topic, [b"\xfe", b"c"])
    with pytest.raises(TableConflict, match="not now"):
        LoadRun(spark, wanted, lambda _: None, opened).run()
    take_away(cluster.bootstrap, topic, 4)
    result = load(spark, wanted)
    assert [(each.start, each.end) for each in result.gone] == [(3, 4)]
    assert "before they were in quarantine" in result.told[0]

    send(cluster.bootstrap, topic, [b"d", b"e"])
    take_away(cluster.bootstrap, topic, 6)
    result = LoadRun(spark, wanted, lambda _: None, connected=Forgetting).run()
    assert [(each.start, each.end) for each in result.gone] == [(5, 6)]
    assert "the lag is that of before the load: gone" in result.told
    assert result.version == 3


@pytest.mark.full
@pytest.mark.parametrize("table_format", TableFormat)
def test_what_is_gone_is_told_again_if_a_load_of_bytes_fails_behind_its_commit(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("raw"))
    wanted = request(cluster.bootstrap, tmp_path / "table", topic, table_format=table_format)
    sent = send(cluster.bootstrap, topic, [b"a"])
    load(spark, wanted)
    sent += send(cluster.bootstrap, topic, [b"b", b"c"])[1:]
    take_away(cluster.bootstrap, topic, 2)
    with pytest.raises(BrokersRefuse, match="withdrawn"):
        LoadRun(spark, wanted, lambda _: None, connected=Refusing).run()
    result = load(spark, wanted)
    assert (result.version, [(each.start, each.end) for each in result.gone]) == (None, [(1, 2)])
    assert load(spark, wanted).gone == ()
    sent += send(cluster.bootstrap, topic, [b"d"])
    assert load(spark, wanted).version == 2
    assert rows(spark, tmp_path / "table", table_format) == sent


def test_what_retention_took_is_told(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("gone"))
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, topic)
    sent = send(cluster.bootstrap, topic, [b"a", b"b"])
    load(spark, wanted)
    later = send(cluster.bootstrap, topic, [b"c", b"d", b"e"])
    take_away(cluster.bootstrap, topic, 4)
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
    # Who has read it uncommitted is beyond that, and waits.
    all_of_it = replace(wanted, table=str(tmp_path / "all"))
    dirty = replace(all_of_it, read=replace(wanted.read, read_committed=False))
    assert load(spark, dirty).records == 3
    waiting = load(spark, all_of_it)
    assert waiting.version is None
    assert "a transaction is open from 4 on" in waiting.told[0]
    producer.commit_transaction()
    assert load(spark, all_of_it).records == 0
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


def test_an_avro_schema_that_is_only_json_is_refused(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("avro"))
    send(cluster.bootstrap, topic, [b"\x06"])
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "lung"}]})
    wanted = request(
        cluster.bootstrap, tmp_path / "t", topic, value_format="avro", schema=schema
    )  # fmt: skip
    with pytest.raises(SchemaUnusable, match="lung"):
        load(spark, wanted)
    assert not open_table(spark, "delta", wanted.table).exists()


def test_a_terminal_shows_rows_and_lag(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    topic = keeping_topic(cluster.bootstrap, unique_name("seen"))
    send(cluster.bootstrap, topic, [b"%d" % number for number in range(40)])
    wanted = request(cluster.bootstrap, tmp_path / "t", topic, per_task=4)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(task_progress, "_INTERVAL_S", 0.02)
    with task_progress.shown(spark, "load") as aim:
        LoadRun(spark, wanted, lambda _: None, aim=aim.set).run()
    lags = {int(found) for found in re.findall(r"lag (\d+) of 40 offsets", terminal.getvalue())}
    assert any(each < 40 for each in lags), terminal.getvalue()


def test_offsets_of_the_brokers(cluster: Cluster, spark: SparkSession) -> None:
    from highwater.spark.brokers import TopicPartition

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
