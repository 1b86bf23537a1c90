"""What ends a stream: records that are gone, a topic made anew, a signal under a backlog; and what does not."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.spark.checkpoint import STREAM
from highwater.spark.jobs.stream_command import exit_codes
from highwater.spark.jobs.watch import watch
from highwater.spark.tables import delta, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import TableConflict
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.spark_loads import keeping_topic, send
from tests.support.stream_jobs import command, commits, make_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.spark.jobs.stream_command import StreamJob

pytestmark = pytest.mark.spark

GOOD = b'h - - [02/Jan/2023:05:00:00 +0000] "GET /a HTTP/1.1" 200 7 "-" "-"'
TIMEOUT_S = 60
READ = 5
"""Records that the first run reads."""
STARTED_S = 240.0
STOPPED_S = 30.0
"""Far less than `stream_run.STOP_WAIT_S`, after which a batch is given up."""


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(
        lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics,
        timeout_s=TIMEOUT_S,
        what=f"the end of {topic}",
    )


def made_anew(bootstrap: str, topic: str, records: int) -> None:
    delete(bootstrap, topic)
    keeping_topic(bootstrap, topic)
    send(bootstrap, topic, [GOOD] * records)


def longer(bootstrap: str, topic: str) -> None:
    """The new one has more records than the old one had: nothing but its id is different."""
    made_anew(bootstrap, topic, 2 * READ)


def shorter(bootstrap: str, topic: str) -> None:
    made_anew(bootstrap, topic, 1)


def trimmed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [GOOD] * READ)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0, READ + 2)
    admin.delete_records([partition])[partition].result(TIMEOUT_S)


def run(job: StreamJob, place: Path) -> None:
    watch(
        job, late_s=60, minutes_path=str(place / "minutes"), alarms_path=str(place / "alarms"),
        rules=(), alarm_topic=None,
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("once", [True, False], ids=["once", "on and on"])
@pytest.mark.parametrize("changed", [longer, shorter, trimmed, delete])
def test_records_that_are_gone_end_the_stream(
    cluster: Cluster,
    spark: SparkSession,
    tmp_path: Path,
    changed: Callable[[str, str], None],
    once: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("gone"))
    send(cluster.bootstrap, topic, [GOOD] * READ)

    def job() -> StreamJob:
        return make_job(
            spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000
        )

    run(job(), tmp_path)
    # It knows which topic it reads, and the topic changes behind its back.
    second = job()
    second = replace(second, options=replace(second.options, once=once))
    changed(cluster.bootstrap, topic)
    capsys.readouterr()
    with pytest.raises(typer.Exit) as ended, exit_codes(topic, cluster.bootstrap):
        run(second, tmp_path)
    told = capsys.readouterr().err
    assert ended.value.exit_code == 3, told
    assert re.search(rf"^highwater-spark: .*{topic}", told, re.MULTILINE), told


def test_two_streams_may_commit_to_one_table(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("shared"))
    send(cluster.bootstrap, topic, [GOOD] * READ)
    is_held, has_met = threading.Event(), threading.Event()

    @contextmanager
    def watched(path: str, purpose: str) -> Iterator[None]:
        try:
            with hold(path, purpose):
                yield
        except TableConflict:
            has_met.set()
            raise

    def another() -> None:
        with hold(str(tmp_path / "minutes"), "commit"):
            is_held.set()
            has_met.wait(STARTED_S)

    monkeypatch.setattr(delta, "hold", watched)
    thread = threading.Thread(target=another)
    thread.start()
    try:
        assert is_held.wait(TIMEOUT_S)
        job = make_job(
            spark, cluster.bootstrap, topic, tmp_path / "state", "watch", offsets_per_batch=1000
        )
        run(job, tmp_path)
        assert has_met.is_set()
    finally:
        has_met.set()
        thread.join()
    assert open_table(spark, "delta", str(tmp_path / "minutes")).exists()


@pytest.mark.full
def test_a_signal_under_a_backlog_ends_the_stream_between_two_batches(
    cluster: Cluster, sample_topic: str, tmp_path: Path
) -> None:
    """Batches follow each other without a pause, and there are enough of them for minutes."""
    arguments = command(
        "watch", "--bootstrap", cluster.bootstrap, "--topic", sample_topic, "--late", "1 day",
        "--checkpoint", str(tmp_path / "state"), "--minutes", str(tmp_path / "minutes"),
        "--alarms", str(tmp_path / "alarms"), "--max-offsets-per-batch", "20", "--every", "0",
    )  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out)
    try:
        wait_until(
            lambda: process.poll() is not None or commits(tmp_path / "minutes") >= 3,
            timeout_s=STARTED_S, what="three batches",
        )  # fmt: skip
        assert process.poll() is None, log.read_text()[-3000:]
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOPPED_S) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
    done = {
        int(each.name) for each in (tmp_path / "state" / STREAM / "commits").glob("*")
        if each.name.isdigit()
    }  # fmt: skip
    assert max(done) < 300, "too late: there was no backlog any more"
    assert commits(tmp_path / "minutes") == len(done), "no batch was done by half"
    text = log.read_text()
    assert "ERROR" not in text, text[-3000:]
    assert "Traceback" not in text, text[-3000:]
