"""A Spark standalone cluster of this machine's processes: a master, workers, and executors for each job."""

from __future__ import annotations

import json
import shlex
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.support.maven import REPOSITORY
from tests.support.process import ManagedProcess, free_port_block, wait_until

HOST = "127.0.0.1"
CORES = 2
START_S = 120.0
EXECUTOR_S = 120.0
EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
JOB = REPOSITORY / "deploy" / "spark" / "job.py"


class SparkWorkers:
    """Lifecycle: `start` once, `stop` once. Jobs run one at a time: each takes all cores.

    Jobs are started by deploy/spark/job.py, so that their drivers are apart from the executors, which
    are children of the worker's process.
    """

    def __init__(
        self,
        directory: Path,
        jars: Path,
        *,
        workers: int = 1,
        cores: int = CORES,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`jars` is the directory of the connector's, `cores` are those of each worker; `settings` are
        further ones for all jobs.
        """
        import pyspark

        self._directory = directory
        self._jars = jars
        self._port = free_port_block(2)
        self._jobs = 0
        self._cores = workers * cores
        self._settings = settings or {}
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        spark_class = str(Path(pyspark.__path__[0]) / "bin" / "spark-class")
        self._master = self._daemon(
            "master",
            *(spark_class, "org.apache.spark.deploy.master.Master", "--host", HOST),
            *("--port", str(self._port), "--webui-port", str(self._port + 1)),
        )
        self._workers = [
            self._daemon(
                f"worker-{number}",
                *(spark_class, "org.apache.spark.deploy.worker.Worker", "--host", HOST),
                *("--webui-port", "0", "--cores", str(cores), "--memory", "1g"),
                *("--work-dir", str(directory / f"work-{number}"), self.url),
            )
            for number in range(workers)
        ]

    @property
    def url(self) -> str:
        """The master's."""
        return f"spark://{HOST}:{self._port}"

    def start(self) -> None:
        """Returns when the master knows all workers."""
        self._master.start()
        for worker in self._workers:
            worker.start()
        wait_until(self._has_workers, timeout_s=START_S, what="workers at the Spark master")

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._master.stop()

    def job(self, *words: str) -> ManagedProcess:
        """A job that is not started yet; started again, it is the same one, with the same log."""
        self._jobs += 1
        settings = {
            "spark.driver.extraClassPath": f"{self._jars}/*",
            "spark.executor.extraClassPath": f"{self._jars}/*",
            "spark.driver.host": HOST,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.databricks.delta.snapshotPartitions": "2",
            **self._settings,
        }
        submit = [
            word for name, value in settings.items() for word in ("--conf", f"{name}={value}")
        ]
        return ManagedProcess(
            words[0],
            [sys.executable, str(JOB), *words],
            log_path=self._directory / f"job-{self._jobs}.log",
            environment=self._environment
            | {
                "SPARK_MASTER_URL": self.url,
                "JOB_CORES": str(self._cores),
                "JOB_DRIVER_MEMORY": "768m",
                "JOB_EXECUTOR_MEMORY": "768m",
                "JOB_SUBMIT": shlex.join(submit),
            },
        )

    def executors(self) -> list[int]:
        """The pids of the executors that run."""
        found = []
        children = [
            each
            for worker in self._workers
            for each in psutil.Process(worker.pid).children(recursive=True)
        ]
        for each in children:
            try:
                if EXECUTOR_CLASS in each.cmdline() and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each.pid)
            except psutil.NoSuchProcess:
                continue  # It has just ended.
        return found

    def kill_executor(self) -> None:
        """Ends the job's executor with SIGKILL; returns when the worker has started another one."""
        (old,) = self.executors()
        psutil.Process(old).kill()
        wait_until(
            lambda: self.executors() not in ([], [old]),
            timeout_s=EXECUTOR_S,
            what=f"an executor instead of {old}",
        )

    def _daemon(self, name: str, *command: str) -> ManagedProcess:
        return ManagedProcess(
            f"Spark {name}",
            list(command),
            log_path=self._directory / f"{name}.log",
            environment=self._environment,
        )

    def _has_workers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{HOST}:{self._port + 1}/json/", timeout=10
            ) as answer:
                told: dict[str, Any] = json.load(answer)
        except OSError:
            return False
        return int(told["aliveworkers"]) == len(self._workers)
