"""A Spark cluster of deploy/compose.spark.yaml in a real engine, beside the stack that it reads from.

Jobs are started as docs/spark/cluster.md says. What they find is compared with plain Python's from the
file that was sent. The tests share one cluster and leave it whole, in this order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow", reason="needs the spark extra")

from confluent_kafka.admin import NewTopic

from highwater.spark.combined_log import parse
from highwater.spark.report import from_json
from highwater.spark.watch.alarms import AlarmState, advance
from highwater.spark.watch.rules import parse_rules
from tests.docker.clients import admin, wait_until_in_sync
from tests.docker.commands import printed
from tests.docker.spark_cluster import PATIENCE_S, SparkCluster, delta_rows
from tests.docker.stack import wait_for
from tests.support import crawled_sample, ranked_sample, watched_sample
from tests.support.stream_jobs import minutes_of, sample_events
from tools.demo.checks import count_file
from tools.demo.options import SAMPLE_LOG

pytestmark = [
    pytest.mark.docker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(3600),
]

TOPIC = "access_log"
PARTITIONS = 6
LINES = 10_000
SERVICES = ("spark-master", "spark-worker", "spark-history")
CRAWLERS = (
    "crawlers", "--topic", TOPIC, "--table", "/lake/crawlers", "--checkpoint",
    "/lake/checkpoints/crawlers", "--requests", "20", "--within", "60", "--gap", "600",
    "--late", "1 day", "--json",
)  # fmt: skip
SMALL_TASKS = ("--max-offsets-per-task", "40")
"""Some 250 tasks: a load that takes long enough to lose a worker."""


@pytest.fixture(scope="module")
def spark_cluster(spark_stack):
    made = SparkCluster(spark_stack)
    made.wait_for_workers(2)
    # Its records are of 2015, which retention would take away.
    wanted = NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
    client = admin(spark_stack.bootstrap)  # Kept: its requests end with it.
    client.create_topics([wanted])[TOPIC].result(60)
    wait_until_in_sync(spark_stack.bootstrap, TOPIC, PARTITIONS)
    sent = made.run("replay", "--topic", TOPIC, "--log-file", "/sample/apache_access.log", "--json")
    assert sent.code == 0, sent.describe()
    assert sent.result["records"] == LINES
    return made


@pytest.fixture(scope="module")
def lines():
    return SAMPLE_LOG.read_bytes().splitlines()


def load(table, *more):
    return (
        "load", "--topic", TOPIC, "--table", f"/lake/{table}", "--format", "combined-log", "--json",
        *more,
    )  # fmt: skip


def assert_whole(spark_cluster, table, lines, tmp_path):
    """The table has every line of the file once, parsed as plain Python parses it."""
    rows = delta_rows(spark_cluster.copy(table, tmp_path))
    found = Counter(
        (
            one["value"]["line"],
            _utc(one["value"]["time"]),
            one["value"]["path"],
            one["value"]["status"],
            one["value"]["size_bytes"],
        )
        for one in rows
    )
    wanted = Counter()
    for line in lines:
        text = line.decode()
        request = parse(text)
        time = request.time.astimezone(UTC)
        wanted[text, time, request.path, request.status, request.size_bytes] += 1
    assert found == wanted
    places = Counter((one["partition"], one["offset"]) for one in rows)
    assert set(places.values()) == {1}
    audited = spark_cluster.run("audit", "--table", f"/lake/{table}", "--json")
    assert audited.code == 0, audited.describe()
    assert (audited.result["records"], audited.result["different"]) == (LINES, [])


def _utc(time: datetime) -> datetime:
    """Parquet's old timestamps come without a zone, and are UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def test_nobody_runs_as_root_and_images_are_sealed(spark_stack):
    for container in [one for name in SERVICES for one in spark_stack.containers(name)]:
        assert int(printed(container, ["id", "-u"])) > 0, container.name
        code, _ = container.exec_run(["touch", "/opt/changed"])
        assert code != 0, container.name


def test_a_load_uses_both_workers_and_the_table_has_every_line_once(spark_cluster, lines, tmp_path):
    done = spark_cluster.run(*load("whole"))
    assert done.code == 0, done.describe()
    assert (done.result["records"], done.result["bad"], done.result["lag"]) == (LINES, 0, 0)
    assert_whole(spark_cluster, "whole", lines, tmp_path)
    executors = spark_cluster.executors_of("load /lake/whole")
    hosts = {one["hostPort"].partition(":")[0] for one in executors if one["completedTasks"] > 0}
    assert len(hosts) == 2, executors


def test_a_report_is_the_one_that_plain_python_gives(spark_cluster, lines, tmp_path):
    done = spark_cluster.run("report", "--topic", TOPIC, "--output", "/lake/report")
    assert done.code == 0, done.describe()
    copied = spark_cluster.copy("report", tmp_path)
    found = from_json((copied / "report.json").read_text(encoding="utf-8"))
    assert found == count_file(lines, TOPIC, top_paths=10)
    assert (copied / "access_log.html").stat().st_size > 0


def test_exit_codes_of_jobs_are_those_of_the_container(spark_cluster):
    missing = spark_cluster.run("load", "--topic", "no-such-topic", "--table", "/lake/none")
    assert missing.code == 2, missing.describe()
    assert "no topic no-such-topic" in missing.output


def test_a_load_that_loses_a_worker_ends_whole(spark_stack, spark_cluster, lines, tmp_path):
    victim, _ = spark_stack.containers("spark-worker")
    (network,) = victim.attrs["NetworkSettings"]["Networks"].values()
    host = network["IPAddress"]
    loading = spark_cluster.start(*load("survivor", *SMALL_TASKS))
    job = spark_cluster.job()

    def under_way():
        found = None if loading.done() else spark_cluster.progress(job)
        assert not loading.done(), loading.result().describe()
        # The stage that reads: it has begun, is far from done, and the victim works on it.
        big = found is not None and found.tasks > 200
        return found if big and found.done >= 10 and found.begun.get(host, 0) >= 5 else None

    seen = wait_for(under_way, PATIENCE_S * 2, spark_stack.describe)
    victim.kill(signal="KILL")
    assert seen.done < seen.tasks * 0.8, "killed too late"
    wait_for(lambda: spark_cluster.workers_alive() == 1, PATIENCE_S, spark_stack.describe)
    done = loading.result()
    assert done.code == 0, done.describe()
    assert done.result["records"] == LINES
    assert_whole(spark_cluster, "survivor", lines, tmp_path)
    executors = spark_cluster.executors_of("load /lake/survivor")
    lost = [one for one in executors if one["hostPort"].startswith(f"{host}:")]
    others = [one for one in executors if one not in lost]
    assert lost, executors
    assert all(not one["isActive"] and one["removeReason"] for one in lost), "it was lost"
    assert sum(one["completedTasks"] for one in others) > seen.tasks - seen.done, executors
    victim.start()
    spark_cluster.wait_for_workers(2)


def test_workers_are_added(spark_stack, spark_cluster):
    spark_stack.up(**{"spark-worker": 3})
    spark_cluster.wait_for_workers(3)


def test_a_stream_that_is_stopped_ends_after_its_batch(spark_cluster, tmp_path):
    """Also: state in Python, which workers start by themselves."""
    streaming = spark_cluster.start(*CRAWLERS)
    job = spark_cluster.job()

    def told():
        assert not streaming.done(), streaming.result().describe()
        return b'"progress"' in job.logs()

    wait_for(told, PATIENCE_S * 2, lambda: job.logs(tail=20).decode())
    job.stop(timeout=90)
    done = streaming.result()
    assert done.code == 0, done.describe()
    rest = spark_cluster.run(*CRAWLERS, "--once")
    assert rest.code == 0, rest.describe()
    rows = delta_rows(spark_cluster.copy("crawlers", tmp_path))
    wanted, _ = crawled_sample.expected(requests=20, within_s=60, gap_s=600, late_s=24 * 3600)
    assert wanted
    assert (
        sorted(
            (one["client"], one["state"], _s(one["at"]), _s(one["session_start"]), one["requests"])
            for one in rows
        )
        == wanted
    )


def test_a_watch_has_the_minutes_and_alarms_that_plain_python_finds(spark_cluster, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(watched_sample.RULES)
    spark_cluster.put(rules)
    done = spark_cluster.run(
        "watch", "--topic", TOPIC, "--checkpoint", "/lake/checkpoints/watch", "--late", "1 day",
        "--rules", "/lake/rules.toml", "--minutes", "/lake/minutes", "--alarms", "/lake/alarms", "--once", "--json",
    )  # fmt: skip
    assert done.code == 0, done.describe()
    minutes = minutes_of(sample_events(), late_s=watched_sample.LATE_S)
    found = delta_rows(spark_cluster.copy("minutes", tmp_path))
    assert sorted((_s(one.pop("minute")), one) for one in found) == [
        (each.start_s, {name: value for name, value in asdict(each).items() if name != "start_s"})
        for each in minutes
    ]
    _, changes = advance(parse_rules(watched_sample.RULES), AlarmState(), minutes)
    assert changes
    rows = delta_rows(spark_cluster.copy("alarms", tmp_path))
    assert sorted(
        (one["rule"], one["state"], _s(one["at"]), one["value"]) for one in rows
    ) == sorted(
        (each.rule, "begin" if each.begins else "end", each.at_s, each.value) for each in changes
    )


def test_a_ranking_is_the_one_that_plain_python_gives(spark_cluster, tmp_path):
    done = spark_cluster.run(
        "ranking", "--topic", TOPIC, "--checkpoint", "/lake/checkpoints/ranking",
        "--table", "/lake/ranking", *ranked_sample.WORDS, "--once", "--json",
    )  # fmt: skip
    assert done.code == 0, done.describe()
    columns = ("rank", "item", "views", "clicks", "click_through")
    rows = delta_rows(spark_cluster.copy("ranking", tmp_path))
    assert (
        sorted(
            (_s(one["window_start"]), _s(one["window_end"]), *(one[name] for name in columns))
            for one in rows
        )
        == ranked_sample.expected()
    )


def test_a_mirror_of_the_cluster_into_itself_is_refused(spark_stack, spark_cluster):
    """It has asked both sides who they are, from the job's container. There is no second cluster here."""
    here = spark_stack.internal_bootstrap
    done = spark_cluster.run(
        "mirror", "--source", f"here={here}", "--target", here, "--topic", TOPIC, "--once"
    )
    assert done.code == 2, done.describe()
    assert "Traceback" not in done.output, done.describe()


def _s(time: datetime) -> int:
    return int(_utc(time).timestamp())
