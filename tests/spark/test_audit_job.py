"""An audit finds nothing in what was loaded, and every row that was tampered with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.audit_run import AuditRequest, AuditResult, NothingLoaded, audit
from highwater.spark.load_run import LoadRun
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.spark_loads import HOUR_MS, START_MS, keeping_topic, request, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.spark.load_run import LoadRequest

pytestmark = pytest.mark.spark


def compare(spark: SparkSession, loaded: LoadRequest) -> AuditResult:
    wanted = AuditRequest(table=loaded.table, table_format=loaded.table_format, read=loaded.read)
    return audit(spark, wanted)


def test_tampered_rows_are_found(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("audit"))
    send(cluster.bootstrap, topic, [b"%d" % number for number in range(9)] + [b"\xff"])
    loaded = request(cluster.bootstrap, tmp_path / "t", topic, value_format="text")
    with pytest.raises(NothingLoaded):
        compare(spark, loaded)
    LoadRun(spark, loaded, lambda _: None).run()
    clean = compare(spark, loaded)
    # Two records an hour.
    assert (clean.records, clean.groups, clean.different) == (10, 5, ())
    assert [(each.equal, each.differing) for each in clean.hours] == [(2, 0)] * 5

    table = f"delta.`{loaded.table}`"
    spark.sql(f"DELETE FROM {table} WHERE offset = 4")
    spark.sql(f"UPDATE {table} SET value = '7 ' WHERE offset = 7")
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE offset = 1")
    spark.sql(f"DELETE FROM delta.`{loaded.quarantine_path}`")
    found = compare(spark, loaded)
    assert [(each.offset, each.what) for each in found.offsets] == [
        (1, "repeated"), (4, "missing"), (7, "altered"), (9, "missing"),
    ]  # fmt: skip
    assert sum(each.in_log - each.in_table for each in found.different) == 1
    # Offsets 1, 4, 7 and 9 are in four hours, of which the first has three rows now.
    assert [(each.equal, each.differing) for each in found.hours] == [
        (0, 3), (2, 0), (0, 2), (0, 2), (0, 2),
    ]  # fmt: skip


@pytest.mark.full
def test_rows_that_no_load_has_written_are_found(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("strange"))
    send(cluster.bootstrap, topic, [b"a", b"b", b"c", b"d"])
    loaded = request(
        cluster.bootstrap, tmp_path / "t", topic, from_ms=START_MS + HOUR_MS
    )  # fmt: skip
    LoadRun(spark, loaded, lambda _: None).run()
    assert compare(spark, loaded).is_equal
    table = f"delta.`{loaded.table}`"
    for change in ("0 AS partition, 1L AS offset", "7 AS partition, 2L AS offset"):
        spark.sql(
            f"INSERT INTO {table} BY NAME SELECT * EXCEPT (partition, offset), {change} FROM {table} "
            "WHERE offset = 2 AND partition = 0"
        )
    one = "SELECT * EXCEPT (topic, topic_id)"
    spark.sql(
        f"INSERT INTO {table} BY NAME {one}, topic, 'former' AS topic_id FROM {table} WHERE offset = 3"
    )
    spark.sql(
        f"INSERT INTO {table} BY NAME {one}, 'other' AS topic, topic_id FROM {table} WHERE topic_id = 'former'"
    )
    found = compare(spark, loaded)
    assert found.different == ()
    (of_topic,) = {each.topic_id for each in found.outside if each.partition == 7}
    assert {
        (each.topic, each.topic_id, each.partition, each.rows, each.is_older)
        for each in found.outside
    } == {
        ("other", "former", 0, 1, False),
        (topic, of_topic, 0, 1, False),
        (topic, of_topic, 7, 1, False),
        (topic, "former", 0, 1, True),
    }
    assert not found.is_equal


@pytest.mark.full
@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_other_tables_are_as_they_were_loaded(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("audit"))
    send(cluster.bootstrap, topic, [b"a", None, b"c"])
    loaded = request(cluster.bootstrap, tmp_path / "t", topic, table_format=table_format)
    LoadRun(spark, loaded, lambda _: None).run()
    found = compare(spark, loaded)
    assert (found.records, found.different, found.uncompared) == (3, (), ())
