"""The Spark job as a child process: its JVM ends with the demo, and does not write to its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from highwater.spark.report import CHART_FILE, PAGE_FILE, REPORT_FILE, Report, from_json
from tools.demo.errors import EXIT_USAGE, DemoError, UsageError
from tools.demo.producing import RUN_HEADER

TIMEOUT_S = 300.0
KILL_WAIT_S = 10.0
LOG_TAIL_LINES = 25


def run_report_job(
    bootstrap: str, topic: str, *, run_id: str, output: Path, top_paths: int, log_path: Path
) -> Report:
    """Runs `highwater-spark report` on this run's records and returns its report.

    Raises DemoError with the end of its output when it fails or takes longer than TIMEOUT_S.
    """
    command = [
        sys.executable, "-m", "highwater.spark", "report",
        "--bootstrap", bootstrap, "--topic", topic, "--header", f"{RUN_HEADER}={run_id}",
        "--output", str(output), "--top", str(top_paths),
    ]  # fmt: skip
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise DemoError(f"the Spark job took longer than {TIMEOUT_S:.0f} s ({log_path})") from None
    finally:
        if process.poll() is None:
            # The Java machine too, which is a child of the process in the same group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(KILL_WAIT_S)
    lines = log_path.read_text(errors="replace").splitlines()
    if code == EXIT_USAGE and lines:
        raise UsageError(lines[-1])
    if code != 0:
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        raise DemoError(f"the Spark job ended with exit code {code}:\n{tail}\n({log_path})")
    for name in (CHART_FILE, PAGE_FILE):
        if not (output / name).is_file():
            raise DemoError(f"the Spark job left no {name} in {output}")
    return from_json((output / REPORT_FILE).read_text(encoding="utf-8"))
