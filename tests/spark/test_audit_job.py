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
from tests.support.spark_loads import keeping_topic, request, send

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
