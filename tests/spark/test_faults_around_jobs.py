"""Something dies under a job that goes on: an executor, a gateway, the node that leads what it reads.

Driver, executors and cluster are processes of this machine; whatever is killed comes back. Each table
has every record once then. Jobs whose driver dies: `test_load_killed.py` and the tests of the streams.
A job that loses executors loses several in one run: a run of its own for each would take a minute more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka.admin import AdminClient

from highwater.spark.jobs.replay import SAMPLE
from tests.conformance.topics import make_topic, unique_name
from tests.support import mirrored_topics, ranked_sample, watched_sample
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.nodes_cluster import NodesCluster
from tests.support.process import ManagedProcess
from tests.support.sample_topic import LINES, PARTITIONS, send_sample
from tests.support.spark_loads import assert_equal, request, rows
from tests.support.spark_workers import SparkWorkers
from tests.support.stream_jobs import commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(2400)]

JOB_S = 400.0
POLL_S = 0.02
AGAIN = frozenset({4, 75})
"""Exit codes that promise that the job goes on when it is started again."""
STARTS_MAX = 3
OFFSETS_PER_TASK = 100
TASKS = LINES // OFFSETS_PER_TASK
"""At least so many, since no task reads two partitions."""
OFFSETS_PER_BATCH = 700
OFFSETS_PER_BATCH_OF_KILLS = 400
"""More batches than executors are killed."""
RECORDS = 1000
"""Of each partition that is mirrored."""
ROUNDS = 20
KILLS = 20
"""Executors that each kind of job loses; a load and a mirror lose them in several runs."""
KILLS_PER_RUN = 5
PERCENTS = range(0, 90, 90 // KILLS_PER_RUN)
"""How far a run has come when it loses an executor, for the first run; the others are a bit later each."""
PERCENTS_LATER = [0, 4, 9, 13]
DELAYS_S = (0, 0.3, 1.0, 2.0)
"""How long after a commit a stream loses an executor, in turns: its batches take seconds."""

FAULTS = pytest.mark.parametrize("fault", ["gateway", "leader"])
RUNS = pytest.mark.parametrize("later", PERCENTS_LATER)


@pytest.fixture(scope="module")
def workers(connector: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorkers]:
    made = SparkWorkers(tmp_path_factory.mktemp("workers"), connector)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesCluster]:
    """Three nodes, each of which is its own gateway."""
    yield from _started(tmp_path_factory.mktemp("combined"), "combined3", None)


@pytest.fixture(scope="module")
def two_gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesCluster]:
    """Three nodes behind two gateways."""
    yield from _started(tmp_path_factory.mktemp("gateways"), "gateways2", 2)


def _started(directory: Path, mode: str, gateways: int | None) -> Iterator[NodesCluster]:
    made = NodesCluster(directory, mode=mode, node_count=3, gateway_count=gateways)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster_under_fault(fault: str, request: pytest.FixtureRequest) -> NodesCluster:
    """The one whose processes are such that the fault meets nothing else."""
    found: NodesCluster = request.getfixturevalue(
        "two_gateways" if fault == "gateway" else "combined"
    )
    return found


def strike(fault: str, cluster: NodesCluster, topic: str) -> None:
    """Kills something that the job needs now; returns when it is there again."""
    leader = _leader(cluster.bootstrap, topic)
    if fault == "gateway":
        cluster.kill_gateway_of(leader)
    else:
        cluster.kill_node(leader)
        cluster.restart_node(leader)


def _leader(bootstrap: str, topic: str) -> int:
    described = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=30)
    return int(described.topics[topic].partitions[0].leader)


def wait_for(job: ManagedProcess, reached: Callable[[], bool]) -> None:
    """Returns when a job has come to a point."""
    deadline = time.monotonic() + JOB_S
    while not reached():
        assert job.running, job.log_tail()
        assert time.monotonic() < deadline, job.log_tail()
        time.sleep(POLL_S)


def kill_executors(
    job: ManagedProcess, workers: SparkWorkers, moments: Iterable[Callable[[], bool]]
) -> None:
    """Kills the job's executor at each of these moments; returns when the last one is replaced."""
    for reached in moments:
        wait_for(job, lambda reached=reached: reached() and len(workers.executors()) == 1)  # type: ignore[misc]
        workers.kill_executor()


def kill_executors_of_stream(job: ManagedProcess, workers: SparkWorkers, table: Path) -> None:
    """Kills KILLS executors, each in another batch of a stream that commits to this table."""
    for number in range(KILLS):
        before = commits(table)
        wait_for(job, lambda before=before: commits(table) > before)  # type: ignore[misc]
        time.sleep(DELAYS_S[number % len(DELAYS_S)])
        workers.kill_executor()


def finish(job: ManagedProcess) -> None:
    """Lets a job end, and starts it again where its exit code says that this is what to do."""
    for _ in range(STARTS_MAX):
        code = job.wait(timeout_s=JOB_S)
        if code == 0:
            return
        assert code in AGAIN, job.log_tail()
        job.start()
    job.stop()
    pytest.fail(f"not done after {STARTS_MAX} starts\n{job.log_tail()}")


@FAULTS
def test_a_load_has_every_record_once(
    cluster_under_fault: NodesCluster,
    workers: SparkWorkers,
    spark: SparkSession,
    tmp_path: Path,
    fault: str,
) -> None:
    cluster = cluster_under_fault
    topic = send_sample(cluster.bootstrap, replication=3)
    table = tmp_path / "table"
    job = workers.job(
        "load", "--bootstrap", cluster.bootstrap, "--topic", topic, "--table", str(table),
        "--max-offsets-per-task", str(OFFSETS_PER_TASK),
    )  # fmt: skip

    def files() -> int:
        return len(list(table.rglob("*.parquet")))

    job.start()
    try:
        wait_for(job, lambda: files() >= 5)
        assert files() < TASKS * 0.8, "too late: the fault is to meet tasks"
        strike(fault, cluster, topic)
        finish(job)
    finally:
        job.stop()
    assert_whole(spark, cluster.bootstrap, topic, table)


def assert_whole(spark: SparkSession, bootstrap: str, topic: str, table: Path) -> None:
    """The table has the sample once, by its rows and by an audit."""
    found = rows(spark, table)
    assert Counter(each.value for each in found) == Counter(SAMPLE.read_bytes().splitlines())
    places = {(each.partition, each.offset) for each in found}
    assert len(places) == len(found) == LINES
    assert {partition for partition, _ in places} == set(range(PARTITIONS))
    assert_equal(spark, request(bootstrap, table, topic), LINES)


@RUNS
def test_executors_are_killed_at_many_moments_of_a_load(
    combined: NodesCluster, workers: SparkWorkers, spark: SparkSession, tmp_path: Path, later: int
) -> None:
    topic = send_sample(combined.bootstrap, replication=3)
    table = tmp_path / "table"
    job = workers.job(
        "load", "--bootstrap", combined.bootstrap, "--topic", topic, "--table", str(table),
        "--max-offsets-per-task", str(OFFSETS_PER_TASK),
    )  # fmt: skip

    def has_written(percent: int) -> bool:
        return len(list(table.rglob("*.parquet"))) >= TASKS * percent // 100

    job.start()
    try:
        kill_executors(
            job, workers, (partial(has_written, percent + later) for percent in PERCENTS)
        )
        finish(job)
    finally:
        job.stop()
    assert_whole(spark, combined.bootstrap, topic, table)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    made = EmbeddedCluster(tmp_path_factory.mktemp("target"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@RUNS
def test_executors_are_killed_at_many_moments_of_a_mirror(
    combined: NodesCluster, workers: SparkWorkers, target: EmbeddedCluster, later: int
) -> None:
    here, there = combined.bootstrap, target.bootstrap
    topic = make_topic(
        here, unique_name("mirrored"), partitions=PARTITIONS, replication=3,
        configs={"retention.ms": "-1"},
    )  # fmt: skip
    for number in range(PARTITIONS):
        mirrored_topics.send(here, topic, number, list(map(mirrored_topics.record, range(RECORDS))))
    job = workers.job(
        "mirror", "--source", f"east={here}", "--target", there, "--topic", topic,
        "--max-offsets-per-task", str(RECORDS // ROUNDS), "--once",
    )  # fmt: skip

    def has_copied(percent: int) -> bool:
        enough = PARTITIONS * RECORDS * percent // 100
        return mirrored_topics.log_ends(there, topic, PARTITIONS) > enough

    job.start()
    try:
        kill_executors(job, workers, (partial(has_copied, percent + later) for percent in PERCENTS))
        finish(job)
    finally:
        job.stop()
    wanted = mirrored_topics.read(here, topic, PARTITIONS)
    assert mirrored_topics.read(there, topic, PARTITIONS) == wanted


@FAULTS
def test_a_stream_has_every_row_once(
    cluster_under_fault: NodesCluster,
    workers: SparkWorkers,
    spark: SparkSession,
    tmp_path: Path,
    fault: str,
) -> None:
    cluster = cluster_under_fault
    topic = send_sample(cluster.bootstrap, replication=3)
    alarm_topic = make_topic(cluster.bootstrap, unique_name("alarms"), replication=3)
    arguments = watched_sample.arguments(
        cluster.bootstrap, topic, alarm_topic, tmp_path, offsets_per_batch=OFFSETS_PER_BATCH
    )
    job = workers.job(*arguments, "--once")
    minutes = tmp_path / "minutes"
    job.start()
    try:
        wait_for(job, lambda: commits(minutes) >= 3)
        before = commits(minutes)
        strike(fault, cluster, topic)
        finish(job)
    finally:
        job.stop()
    assert commits(minutes) > before, "too late: the fault is to meet batches"
    changes = watched_sample.assert_right(spark, tmp_path)
    watched_sample.assert_told(cluster.bootstrap, alarm_topic, changes)


def test_a_stream_that_loses_many_executors_has_every_row_once(
    combined: NodesCluster, workers: SparkWorkers, spark: SparkSession, tmp_path: Path
) -> None:
    topic = send_sample(combined.bootstrap, replication=3)
    alarm_topic = make_topic(combined.bootstrap, unique_name("alarms"), replication=3)
    arguments = watched_sample.arguments(
        combined.bootstrap, topic, alarm_topic, tmp_path,
        offsets_per_batch=OFFSETS_PER_BATCH_OF_KILLS,
    )  # fmt: skip
    job = workers.job(*arguments, "--once")
    job.start()
    try:
        kill_executors_of_stream(job, workers, tmp_path / "minutes")
        finish(job)
    finally:
        job.stop()
    changes = watched_sample.assert_right(spark, tmp_path)
    watched_sample.assert_told(combined.bootstrap, alarm_topic, changes)


@FAULTS
def test_a_ranking_has_every_rank_once(
    cluster_under_fault: NodesCluster,
    workers: SparkWorkers,
    spark: SparkSession,
    tmp_path: Path,
    fault: str,
) -> None:
    cluster = cluster_under_fault
    topic = send_sample(cluster.bootstrap, replication=3)
    board = make_topic(cluster.bootstrap, unique_name("board"), replication=3)
    arguments = ranked_sample.arguments(
        cluster.bootstrap, topic, board, tmp_path, offsets_per_batch=OFFSETS_PER_BATCH
    )
    job = workers.job(*arguments, "--once")
    table = tmp_path / "ranking"
    job.start()
    try:
        wait_for(job, lambda: commits(table) >= 3)
        before = commits(table)
        strike(fault, cluster, topic)
        finish(job)
    finally:
        job.stop()
    assert commits(table) > before, "too late: the fault is to meet batches"
    ranked_sample.assert_right(spark, cluster.bootstrap, board, tmp_path)


def test_a_ranking_that_loses_many_executors_has_every_rank_once(
    combined: NodesCluster, workers: SparkWorkers, spark: SparkSession, tmp_path: Path
) -> None:
    topic = send_sample(combined.bootstrap, replication=3)
    board = make_topic(combined.bootstrap, unique_name("board"), replication=3)
    arguments = ranked_sample.arguments(
        combined.bootstrap, topic, board, tmp_path, offsets_per_batch=OFFSETS_PER_BATCH_OF_KILLS
    )
    job = workers.job(*arguments, "--once")
    job.start()
    try:
        kill_executors_of_stream(job, workers, tmp_path / "ranking")
        finish(job)
    finally:
        job.stop()
    ranked_sample.assert_right(spark, combined.bootstrap, board, tmp_path)
