"""A job of highwater-spark on a Spark cluster; the first process of its container.

    job.py load --topic access_log --table tables/access_log

The file runs twice. At first it starts spark-submit, that is Java, which starts it again as the job.
Java would take the session away from a job that is told to end: so SIGTERM, with which a container is
stopped, goes past Java to the job, which ends as its document says. Its exit code is the container's.

Variables: those of `SUBMIT`, JOB_SUBMIT for further options of spark-submit, and BOOTSTRAP_SERVERS for
jobs that are given no --bootstrap.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import typer

SUBMIT: Final = {
    "--master": "SPARK_MASTER_URL",
    "--driver-memory": "JOB_DRIVER_MEMORY",
    "--executor-memory": "JOB_EXECUTOR_MEMORY",
    "--total-executor-cores": "JOB_CORES",
}
"""Options of spark-submit, and the variable of each; one that is not set leaves it to Spark."""

BOOTSTRAP: Final = "BOOTSTRAP_SERVERS"

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # Set by spark-submit for the Python it starts.
_JOB_PID: Final = "JOB_PID_FILE"


def command_line(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the command of spark-submit for a job with these arguments."""
    options = [
        word
        for option, name in SUBMIT.items()
        if environment.get(name)
        for word in (option, environment[name])
    ]
    options += shlex.split(environment.get("JOB_SUBMIT", ""))
    return ["spark-submit", *options, __file__, *arguments]


def submit(arguments: Sequence[str]) -> int:
    """Runs the job by spark-submit; returns its exit code, 128 + n if signal n ended it."""
    # Of this process alone: in a container there is no other one.
    pid_file = Path(f"/tmp/job.{os.getpid()}")  # noqa: S108 # The container's own.
    # A terminal sends it to the whole group: only the job is to hear it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    java = subprocess.Popen(  # noqa: S603 # The arguments are the user's own.
        command_line(arguments, os.environ), env={**os.environ, _JOB_PID: str(pid_file)}
    )

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not pid_file.exists():
            java.send_signal(number)  # The job has not begun.
            return
        with suppress(ProcessLookupError):  # It has just ended, and Java ends after it.
            os.kill(int(pid_file.read_text(encoding="ascii")), number)

    signal.signal(signal.SIGTERM, pass_on)
    code = java.wait()
    pid_file.unlink(missing_ok=True)
    return code if code >= 0 else 128 - code


def run() -> None:
    """Runs the job itself, whose pid goes into the file that `submit` named."""
    from highwater.spark.__main__ import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    if named := os.environ.get(_JOB_PID):
        draft = Path(f"{named}.new")
        draft.write_text(str(os.getpid()), encoding="ascii")
        draft.replace(named)  # In one step: a signal may come at any time.
    command = typer.main.get_command(app)
    defaults = {"bootstrap": os.environ[BOOTSTRAP]} if os.environ.get(BOOTSTRAP) else {}
    names = getattr(command, "commands", {})
    command(prog_name="highwater-spark", default_map=dict.fromkeys(names, defaults))


if __name__ == "__main__":
    if _SUBMITTED in os.environ:
        run()
    else:
        sys.exit(submit(sys.argv[1:]))
