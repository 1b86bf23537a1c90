"""`highwater-spark load` and `audit` as commands: JSON, one line an error, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.maven import REPOSITORY
from tests.support.process import free_port_block, wait_until
from tests.support.spark_loads import keeping_topic, send

pytestmark = [pytest.mark.spark, pytest.mark.full]

COMMAND_TIMEOUT_S = 240


def spark_command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "highwater.spark", *map(str, words)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
    )  # fmt: skip


def test_load_and_audit(cluster: Cluster, connector: Path, tmp_path: Path) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("command"))
    send(cluster.bootstrap, topic, [b"a", b"\xff"])
    where = ("--bootstrap", cluster.bootstrap, "--table", tmp_path / "t", "--jars", connector)
    pages = ("--html", tmp_path / "pages" / "load.html", "--png", tmp_path / "pages" / "load.png")
    done = spark_command("load", "--topic", topic, "--format", "text", "--json", *where, *pages)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "pages" / "load.html").read_text()
    assert "Values in quarantine per hour" in page
    assert "<td>not UTF-8</td>" in page
    assert (tmp_path / "pages" / "load.png").stat().st_size > 10_000
    result = json.loads(done.stdout)
    assert (result["records"], result["bad"], result["lag"], result["version"]) == (2, 1, 0, 0)

    done = spark_command("audit", *where, "--html", tmp_path / "audit.html")
    assert done.returncode == 0, done.stderr
    assert (
        "All 1 hours of partitions that were compared are equal."
        in (tmp_path / "audit.html").read_text()
    )
    assert done.stdout == "2 records in 1 hours of partitions compared: all equal.\n"

    for file in (tmp_path / "t_quarantine").rglob("*.parquet"):
        file.unlink()
    done = spark_command("audit", *where)
    assert done.returncode == 4, done.stderr
    assert "highwater-spark: " in done.stderr


def test_no_broker_and_no_topic(cluster: Cluster, connector: Path, tmp_path: Path) -> None:
    where = ("--table", tmp_path / "t", "--jars", connector, "--topic", "no-such-topic")
    done = spark_command("load", "--bootstrap", cluster.bootstrap, *where)
    assert done.returncode == 2
    assert "no topic no-such-topic" in done.stderr
    done = spark_command("load", "--bootstrap", f"127.0.0.1:{free_port_block(1)}", *where)
    assert done.returncode == 75
    assert "does not answer" in done.stderr


def test_a_load_whose_java_dies_ends(cluster: Cluster, connector: Path, tmp_path: Path) -> None:
    topic = keeping_topic(cluster.bootstrap, unique_name("java"))
    send(cluster.bootstrap, topic, [b"a"])
    log = tmp_path / "log"
    words = [
        "load", "--bootstrap", cluster.bootstrap, "--topic", topic, "--table", tmp_path / "t",
        "--jars", connector, "--every", "1s",
    ]  # fmt: skip
    with log.open("wb") as out:
        job = subprocess.Popen(
            [sys.executable, "-m", "highwater.spark", *map(str, words)],
            cwd=REPOSITORY, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        wait_until(
            lambda: "Nothing new" in log.read_text() or job.poll() is not None,
            timeout_s=COMMAND_TIMEOUT_S,
            what="the second turn",
        )
        (java,) = [
            each
            for each in psutil.Process(job.pid).children(recursive=True)
            if each.name() == "java"
        ]
        java.kill()
        assert job.wait(COMMAND_TIMEOUT_S) == 4, log.read_text()
    finally:
        job.kill()
        job.wait()
    assert "Spark's session is over: start the job again" in log.read_text()
    assert "Traceback" not in log.read_text()
