"""The report job on a real broker, through Spark's own connector."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import Producer
from pyarrow import parquet

from highwater.spark.brokers import TopicMissing
from highwater.spark.jobs.report import run
from highwater.spark.load_run import LoadRun
from highwater.spark.report import (
    CHART_FILE,
    PAGE_FILE,
    REPORT_FILE,
    HourTraffic,
    PathTraffic,
    StatusCount,
    from_json,
)
from highwater.spark.report_lines import TableSource
from highwater.spark.topic import TopicSource
from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.spark_loads import request
from tools.demo.checks import count_file
from tools.demo.options import SAMPLE_LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUBMIT_TIMEOUT_S = 240


def send(
    cluster: Cluster,
    topic: str,
    values: Iterable[bytes | None],
    *,
    headers: dict[str, bytes] | None = None,
    codec: str = "none",
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec})
    for value in values:
        producer.produce(topic, value, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def line(hour: int, path: str, status: int, size: object, *, zone: str = "+0000") -> bytes:
    time = f"02/Jan/2024:{hour:02}:30:00 {zone}"
    return f'10.0.0.1 - - [{time}] "GET {path} HTTP/1.1" {status} {size} "-" "-"'.encode()


def test_the_sample_log(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("sample"), partitions=6)
    lines = SAMPLE_LOG.read_bytes().splitlines()
    send(cluster, topic, lines, codec="zstd")
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic)
    found = run(spark, source, tmp_path, top_paths=10)
    # Counted with grep, sort and uniq, so that the parser does not vouch for itself.
    assert (found.records, found.requests, found.unparsed) == (10_000, 10_000, 0)
    assert found.size_bytes == 2_747_282_740
    assert len(found.hours) == 84
    assert found.hours[0] == HourTraffic(
        start=datetime(2015, 5, 17, 10, tzinfo=UTC),
        requests=74,
        size_bytes=5_185_322,
        client_errors=1,
        server_errors=0,
    )
    assert found.errors == 220
    assert found.status_codes[:2] == (
        StatusCount(status=200, requests=9126),
        StatusCount(status=304, requests=445),
    )
    assert (found.top_paths[0].path, found.top_paths[0].requests) == ("/favicon.ico", 807)
    assert found == count_file(lines, topic, top_paths=10)


def test_what_is_written_is_what_is_returned_and_replaces_what_was_there(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("files"), partitions=2)
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic)
    send(cluster, topic, [line(7, "/a", 200, 5), line(8, "/b", 404, "-")])
    run(spark, source, tmp_path, top_paths=10)
    first_picture = (tmp_path / CHART_FILE).read_bytes()
    first_page = (tmp_path / PAGE_FILE).read_text()
    send(cluster, topic, [line(8, "/b?x=1", 200, 10), line(8, "/c", 500, 0)])
    found = run(spark, source, tmp_path, top_paths=2)

    assert from_json((tmp_path / REPORT_FILE).read_text()) == found
    assert (tmp_path / CHART_FILE).read_bytes() != first_picture
    assert (tmp_path / PAGE_FILE).read_text() != first_page
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        PAGE_FILE, CHART_FILE, REPORT_FILE, "requests_by_hour", "status_codes", "top_paths",
    ]  # fmt: skip
    hours = parquet.read_table(tmp_path / "requests_by_hour").to_pylist()
    assert [[row["hour"].hour, *list(row.values())[1:]] for row in hours] == [
        [7, 1, 5, 0, 0],
        [8, 3, 10, 1, 1],
    ]
    assert parquet.read_table(tmp_path / "top_paths").to_pylist() == [
        {"path": "/b", "requests": 2, "size_bytes": 10},
        {"path": "/a", "requests": 1, "size_bytes": 5},
    ]
    assert parquet.read_table(tmp_path / "status_codes").to_pylist() == [
        {"status": 200, "requests": 2},
        {"status": 404, "requests": 1},
        {"status": 500, "requests": 1},
    ]


def test_spark_reads_lines_as_python_does(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    """The odd ones: zones, quotes, no values, no text, no format, and nothing Java chokes on."""
    topic = make_topic(cluster.bootstrap, unique_name("odd"), partitions=1)
    good = [
        line(1, "/zone", 200, 1, zone="-0700"),
        line(2, r"/say/\"hi\"", 200, 2),
        line(3, "/cut", 200, 3)[:-6],
        line(4, "/" + r"\"" * 20_000, 414, 4),
        b'h - - [02/Jan/2024:05:00:00 +0000] "-" 408 -',
        'h - - [02/Jan/2024:05:00:00 +0000] "GET /ä HTTP/1.1" 200 1 "-" "-"'.encode(),
        line(5, "/<script>alert('x')</script>$x^{", 200, 1),
    ]
    bad = [
        b"",
        b"garbage",
        b"\xff\xfe\x00",
        line(6, "/", 200, "x"),
        line(99, "/", 200, 1),
        # More than a sum can be.
        *[line(6, "/", 200, "9" * 18)] * 10,
        *(line(6, "/", 200, 1).replace(b"2024", year) for year in (b"0000", b"+12345", b"12345")),
        b'h - - [01/Jan/0001:00:30:00 +0100] "GET / HTTP/1.1" 200 1',
        b'h - - [31/Dec/9999:23:30:00 -0100] "GET / HTTP/1.1" 200 1',
        b"h - - [" + b"9" * 100_000,
    ]
    send(cluster, topic, [*good, *bad, None])
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic)
    found = run(spark, source, tmp_path, top_paths=100)
    assert (found.records, found.unparsed) == (len(good) + len(bad) + 1, len(bad) + 1)
    assert found == count_file([*good, *bad, b""], topic, top_paths=100)
    assert PathTraffic(path="/ä", requests=1, size_bytes=1) in found.top_paths
    page = (tmp_path / PAGE_FILE).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;$x^{" in page


def test_only_records_with_the_header(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("headers"), partitions=1)
    for headers in ({"run": b"1"}, {"run": b"2", "more": b"x"}, {"ruin": b"1"}, None):
        send(cluster, topic, [line(1, f"/{headers}".replace(" ", ""), 200, 1)], headers=headers)
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic, headers={"run": "2"})
    found = run(spark, source, tmp_path, top_paths=10)
    assert found.records == 1
    assert "more" in found.top_paths[0].path


def test_of_transactions_only_what_was_committed(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("committed"))
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": unique_name("report")}
    )
    producer.init_transactions(60)
    for path, end in (
        ("/kept", producer.commit_transaction),
        ("/dropped", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, line(1, path, 200, 1))
        assert producer.flush(60) == 0
        end(60)
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic)
    found = run(spark, source, tmp_path / "committed", top_paths=10)
    assert [each.path for each in found.top_paths] == ["/kept"]
    every = run(spark, replace(source, read_committed=False), tmp_path / "all", top_paths=10)
    assert [each.path for each in every.top_paths] == ["/dropped", "/kept"]


def test_a_missing_topic_is_told_in_one_line(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    source = TopicSource(bootstrap=cluster.bootstrap, topic="no-such-topic")
    with pytest.raises(TopicMissing, match="no topic no-such-topic at"):
        run(spark, source, tmp_path / "out", top_paths=10)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("value_format", ["combined-log", "raw"])
def test_a_table_gives_the_report_of_its_topic(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, value_format: str
) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("loaded"))
    good = [line(7, "/a?x=1", 200, 5), line(7, "/a", 404, "-"), line(8, "/b", 500, 7)]
    send(cluster, topic, [*good, b"garbage", None, b"\xff"], headers={"run": b"1"})
    send(cluster, topic, [line(9, "/other", 200, 1)])
    headers = {"run": "1"}
    of_topic = run(
        spark, TopicSource(bootstrap=cluster.bootstrap, topic=topic, headers=headers),
        tmp_path / "topic", top_paths=10,
    )  # fmt: skip
    assert (of_topic.records, of_topic.unparsed) == (6, 3)
    table = tmp_path / "table"
    wanted = request(cluster.bootstrap, table, topic, value_format=value_format)
    LoadRun(spark, wanted, print).run()
    source = TableSource(
        table=str(table), table_format="delta", quarantine=f"{table}_quarantine", topic=topic,
        headers=headers,
    )  # fmt: skip
    of_table = run(spark, source, tmp_path / "report", top_paths=10)
    assert of_table == replace(of_topic, table=str(table))
    page = (tmp_path / "report" / PAGE_FILE).read_text()
    assert f"Traffic in table {table}" in page
    none = run(spark, replace(source, topic="another"), tmp_path / "none", top_paths=10)
    assert (none.records, none.requests) == (0, 0)


def test_a_table_of_a_load_that_took_any_time_and_size(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    values = ", ".join(
        f"(named_struct('time', timestamp'{time}', 'path', '/', 'status', 200, 'size_bytes', {size}L))"
        for time, size in (
            ("2024-01-02 05:00:00Z", 7),
            ("0000-10-10 05:00:00Z", 1),
            ("+12345-10-10 05:00:00Z", 1),
            *[("2024-01-02 05:00:00Z", 10**18 - 1)] * 10,
        )
    )
    spark.sql(f"select * from values {values} t(value)").write.format("delta").save(table)
    source = TableSource(table=table, table_format="delta", quarantine=f"{table}_quarantine")
    found = run(spark, source, tmp_path / "report", top_paths=10)
    assert (found.records, found.unparsed, found.size_bytes) == (13, 12, 7)


@pytest.mark.core(codec="zstd")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_spark_reads_every_codec(cluster: Cluster, spark: SparkSession, codec: str) -> None:
    from highwater.spark.topic import read_topic

    topic = make_topic(cluster.bootstrap, unique_name(codec), partitions=2)
    values = [b"%06d" % number + b"x" * 100 for number in range(2000)]
    send(cluster, topic, values, codec=codec)
    source = TopicSource(bootstrap=cluster.bootstrap, topic=topic)
    rows = read_topic(spark, source).select("value").collect()
    assert sorted(bytes(row["value"]) for row in rows) == values


@pytest.mark.full
def test_as_a_script_of_spark_submit(cluster: Cluster, connector: Path, tmp_path: Path) -> None:
    topic = make_topic(cluster.bootstrap, unique_name("submit"), partitions=1)
    send(cluster, topic, [line(1, "/", 200, 1)])
    from highwater.spark.jobs import report

    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]",
        "--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.ui.enabled=false",
        "--jars", ",".join(map(str, connector.glob("*.jar"))),
        report.__file__, "--bootstrap", cluster.bootstrap, "--topic", topic,
        "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SUBMIT_TIMEOUT_S, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert from_json((tmp_path / "out" / REPORT_FILE).read_text()).requests == 1
