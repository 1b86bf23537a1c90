"""The Spark cluster of a stack: jobs on it, what master and history server tell, and its tables."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from docker.errors import APIError
from docker.models.containers import Container
from pyarrow import parquet

from tests.docker.stack import Stack, wait_for

JOB_S = 600
PATIENCE_S = 120
LAKE = "/lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job that has ended: its exit code and what it printed, Java's log apart."""

    code: int
    output: str
    log: str

    @property
    def result(self) -> dict[str, Any]:
        """The last line of JSON."""
        lines = [line for line in self.output.splitlines() if line.startswith("{")]
        assert lines, self.describe()
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def describe(self) -> str:
        return f"exit code {self.code}\n{self.output[-3000:]}\n{self.log[-3000:]}"


class Progress(NamedTuple):
    """Tasks of the largest stage that is under way, done and in all; tasks begun by host."""

    done: int
    tasks: int
    begun: dict[str, int]


class SparkCluster:
    """As the operator sees it; `stack` has to have deploy/compose.spark.yaml."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._jobs = ThreadPoolExecutor(1)

    def run(self, *words: str) -> Ended:
        """Runs a job to its end, by the command that the document names."""
        done = subprocess.run(
            self._stack.command("run", "-T", "--rm", "spark-job", *words),
            env=self._stack.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
        )
        return Ended(code=done.returncode, output=done.stdout, log=done.stderr)

    def start(self, *words: str) -> Future[Ended]:
        """Starts a job. One runs at a time."""
        return self._jobs.submit(self.run, *words)

    def workers_alive(self) -> int:
        (master,) = self._stack.containers("spark-master")
        told = _ask(master, "http://127.0.0.1:8080/json/")
        return 0 if told is None else int(told["aliveworkers"])

    def wait_for_workers(self, count: int) -> None:
        wait_for(lambda: self.workers_alive() == count, PATIENCE_S, self._stack.describe)

    def job(self) -> Container:
        """The container of the job that runs."""

        def running() -> list[Container]:
            return [one for one in self._stack.containers("spark-job") if one.status == "running"]

        return wait_for(running, PATIENCE_S, self._stack.describe)[0]

    def progress(self, job: Container) -> Progress | None:
        """What the job's own page tells; None while it has none."""
        base = "http://127.0.0.1:4040/api/v1/applications"
        applications = _ask(job, base)
        if not applications:
            return None
        stages = _ask(job, f"{base}/{applications[0]['id']}/stages?status=active")
        executors = _ask(job, f"{base}/{applications[0]['id']}/executors")
        if not stages or not executors:
            return None
        largest = max(stages, key=lambda each: int(each["numTasks"]))
        return Progress(
            largest["numCompleteTasks"],
            largest["numTasks"],
            {one["hostPort"].partition(":")[0]: one["totalTasks"] for one in executors},
        )

    def executors_of(self, name: str) -> list[dict[str, Any]]:
        """All executors that an ended job has had, as the history server tells."""
        (history,) = self._stack.containers("spark-history")
        base = "http://127.0.0.1:18080/api/v1/applications"

        def ended() -> list[str]:
            told = _ask(history, f"{base}?status=completed") or []
            return [one["id"] for one in told if one["name"] == name]

        (application,) = wait_for(ended, PATIENCE_S, lambda: str(_ask(history, base)))
        found: list[dict[str, Any]] = _ask(history, f"{base}/{application}/allexecutors")
        return [one for one in found if one["id"] != "driver"]

    def put(self, file: Path) -> None:
        """Copies a file into the lake, under its name."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(file, arcname=file.name)
        worker = self._stack.containers("spark-worker")[0]
        assert worker.put_archive(LAKE, packed.getvalue())

    def copy(self, path: str, into: Path) -> Path:
        """Copies a file or directory of the lake out of it, and returns its new place."""
        worker = self._stack.containers("spark-worker")[0]
        stream, _ = worker.get_archive(f"{LAKE}/{path}")
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            archive.extractall(into, filter="data")
        return into / Path(path).name


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table without Spark: those of the files that its log has."""
    files: set[str] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(unquote(action["add"]["path"]))
            elif "remove" in action:
                files.discard(unquote(action["remove"]["path"]))
    found: list[dict[str, Any]] = []
    for name in sorted(files):
        with parquet.ParquetFile(table / name, coerce_int96_timestamp_unit="ms") as file:
            found += file.read().to_pylist()
    return found


def _ask(container: Container, url: str) -> Any:
    """What a page of Spark's answers inside of a container; None while it does not."""
    script = f"import urllib.request as r; print(r.urlopen({url!r}, timeout=10).read().decode())"
    try:
        code, output = container.exec_run(["python3", "-c", script])
    except APIError:
        return None  # It has just ended.
    if code != 0:
        return None
    try:
        return json.loads(output)
    except json.JSONDecodeError:
        return None  # A page in words, with status 200: "Spark is starting up."
