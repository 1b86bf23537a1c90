"""The Spark jobs as a child process: its JVM ends with the demo, and does not write to its output.

One process and one session for all jobs, since a session takes longer to start than any of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from highwater.spark.report import CHART_FILE, PAGE_FILE, Report, from_json
from tools.demo.errors import EXIT_USAGE, DemoError, UsageError
from tools.demo.options import REPOSITORY

TIMEOUT_S = 300.0
POLL_S = 0.05
END_WAIT_S = 10.0
KILL_WAIT_S = 10.0
LOG_TAIL_LINES = 25


class SparkJobs:
    """`tools.demo.session` on this run's records, which leaves a file for each job that is done.

    Use it as a context manager, which ends the process; ask for results in the order of the jobs.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        run_id: str,
        output: Path,
        top_paths: int,
        log_path: Path,
    ) -> None:
        self._output = output.absolute()
        self._log_path = log_path
        self._command = [
            sys.executable, "-m", "tools.demo.session",
            "--bootstrap", bootstrap, "--topic", topic, "--run-id", run_id,
            "--output", str(self._output), "--top", str(top_paths),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0

    def __enter__(self) -> Self:
        # Before the process starts: a file of an earlier run would pass for one of this run.
        try:
            shutil.rmtree(self._output, ignore_errors=not self._output.exists())
        except OSError as error:
            raise UsageError(f"cannot replace {self._output}: {error.strerror}") from None
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._deadline = time.monotonic() + TIMEOUT_S
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        process = self._process
        if process is None:
            return
        if kind is None:
            # All is done; the session removes what it has left in the temporary directory.
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_WAIT_S)
        if process.poll() is None:
            # The Java machine too, which is a child of the process in the same group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(KILL_WAIT_S)

    def report(self) -> Report:
        """Returns the report, once it is written. Raises DemoError."""
        found = from_json(self._wait_for("report.json"))
        for name in (CHART_FILE, PAGE_FILE):
            if not (self._output / name).is_file():
                raise DemoError(f"the report left no {name} in {self._output}")
        return found

    def loaded(self) -> dict[str, Any]:
        """Returns what `session.load` wrote, once the table is loaded. Raises DemoError."""
        return self._document("load.json")

    def audited(self) -> dict[str, Any]:
        """Returns an `AuditResult` as JSON, once the table was compared. Raises DemoError."""
        return self._document("audit.json")

    def _document(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._wait_for(name))
        return document

    def _wait_for(self, name: str) -> str:
        process = self._process
        assert process is not None, "use it as a context manager"
        path = self._output / name
        while not path.exists():
            if (code := process.poll()) is not None and not path.exists():
                raise self._failed(code)
            if time.monotonic() > self._deadline:
                raise DemoError(
                    f"the Spark jobs took longer than {TIMEOUT_S:.0f} s ({self._log_path})"
                )
            time.sleep(POLL_S)
        return path.read_text(encoding="utf-8")

    def _failed(self, code: int) -> DemoError:
        lines = self._log_path.read_text(errors="replace").splitlines()
        if code == EXIT_USAGE and lines:
            return UsageError(lines[-1])
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        return DemoError(f"the Spark jobs ended with exit code {code}:\n{tail}\n({self._log_path})")
