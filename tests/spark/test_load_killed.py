"""A load that was killed anywhere, and started again, has every record once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.load_run import LoadRun
from highwater.spark.tables import TableFormat, open_table
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.maven import REPOSITORY
from tests.support.spark_loads import assert_equal, keeping_topic, request, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DRIVER_TIMEOUT_S = 240
KILLED = -9
MOMENTS = ["begin", "between", *(f"{tenths / 10}" for tenths in range(1, 19))]
"""With `files`, one more than the twenty that `make full` is to have for Delta."""

CASES = [
    ("delta", "files"),
    *(pytest.param("delta", moment, marks=pytest.mark.full) for moment in MOMENTS),
    *(
        pytest.param(table_format, moment, marks=pytest.mark.full)
        for table_format in (TableFormat.ICEBERG, TableFormat.PARQUET)
        for moment in ("files", "between", "0.3", "0.8")
    ),
]


@pytest.mark.anywhere(table_format="delta", moment="files")
@pytest.mark.parametrize(("table_format", "moment"), CASES)
def test_killed_and_started_again(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, table_format: str, moment: str
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("killed"))
    table = tmp_path / "table"
    values = [b"%d" % number if number % 5 else b"\xff%d" % number for number in range(40)]
    send(cluster.bootstrap, topic, values)
    command = [
        sys.executable, "-m", "tests.support.killed_load",
        cluster.bootstrap, topic, str(table), table_format, moment,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S,
        start_new_session=True, check=False,
    )  # fmt: skip
    # A late moment may come after the end.
    assert done.returncode == KILLED or moment[0].isdigit(), done.stderr[-3000:]

    # Records that came since must not make up for lines of the killed run.
    send(cluster.bootstrap, topic, [b"new", b"\xffnew"])
    wanted = request(
        cluster.bootstrap, table, topic, table_format=table_format, value_format="text"
    )
    LoadRun(spark, wanted, lambda _: None).run()
    values += [b"new", b"\xffnew"]
    loaded = open_table(spark, table_format, wanted.table).read()
    left = open_table(spark, table_format, wanted.quarantine_path).read()
    found = [(row["offset"], row["value"].encode()) for row in loaded.collect()]
    found += [(row["offset"], bytes(row["value"])) for row in left.collect()]
    assert sorted(found) == list(enumerate(values))
    assert {row["error"] for row in left.collect()} == {"not UTF-8"}
    assert_equal(spark, wanted, len(values))
