"""deploy/spark/job.py without a cluster: what spark-submit is told, and how its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from deploy.spark.job import command_line

from tests.support.maven import REPOSITORY

pytestmark = pytest.mark.spark

JOB = REPOSITORY / "deploy" / "spark" / "job.py"
END_S = 200
SAID = "highwater-spark: "


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The first process of a job's container; Spark is on this machine alone."""
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    here = Path(sys.executable).parent
    return subprocess.Popen(
        [sys.executable, str(JOB), *arguments],
        env=kept
        | {
            "PATH": f"{here}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_URL": "local[1]",
            "COLUMNS": "200",
        }
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_variables_become_options_of_spark_submit() -> None:
    environment = {
        "SPARK_MASTER_URL": "spark://m:7077",
        "JOB_CORES": "4",
        "JOB_EXECUTOR_MEMORY": "",
        "JOB_SUBMIT": "--conf spark.x='a b'",
    }
    assert command_line(["load", "--topic", "t"], environment) == [
        "spark-submit", "--master", "spark://m:7077", "--total-executor-cores", "4",
        "--conf", "spark.x=a b", str(JOB), "load", "--topic", "t",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["load", *(pytest.param(name, marks=pytest.mark.full) for name in ("report", "crawlers"))],
)
def test_every_job_has_the_bootstrap_address_of_the_container(name: str) -> None:
    with start(name, "--help", BOOTSTRAP_SERVERS="gateway:29092") as process:
        output, log = process.communicate(timeout=END_S)
    assert process.returncode == 0, log
    assert "[default: gateway:29092]" in output


def test_the_exit_code_is_the_jobs_own() -> None:
    with start("load", "--table", "t") as process:
        output, log = process.communicate(timeout=END_S)
    assert process.returncode == 2, log
    assert f"{SAID}name a --topic or a --pattern" in output


@pytest.mark.full
def test_the_job_ends_in_order_when_its_container_is_stopped(tmp_path: Path) -> None:
    """Nobody answers: the job waits, and says so if it is told to end in order."""
    log = tmp_path / "log"
    log.write_text('h - - [02/Jan/2024:05:00:00 +0000] "GET /a HTTP/1.1" 200 7 "-" "-"\n' * 10)
    with start(
        "replay", "--topic", "t", "--log-file", str(log), "--bootstrap", "127.0.0.1:1"
    ) as process:
        pid_file = Path(f"/tmp/job.{process.pid}")
        deadline = time.monotonic() + END_S
        while not pid_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        job = int(pid_file.read_text())
        assert str(JOB).encode() in Path(f"/proc/{job}/cmdline").read_bytes().split(b"\0")
        # The job takes the signal itself when it has begun to work.
        while not _catches(job, signal.SIGTERM):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=END_S)
    assert process.returncode == 75, output
    assert "the cluster at 127.0.0.1:1" in output


def _catches(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (number - 1))
