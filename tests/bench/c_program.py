"""Compiles the C programs of the benchmark, if their sources have changed."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

BUILD_TIMEOUT_S = 120


class BuildFailed(RuntimeError):
    """There is no compiler, or it refused the sources."""


def build(source: Path, target: str = "all") -> None:
    """Makes a target of `source`/Makefile; at the same time by one process. Raises BuildFailed."""
    if shutil.which("make") is None or shutil.which("cc") is None:
        raise BuildFailed(
            "make and a C compiler are needed: apt-get install build-essential libssl-dev"
        )
    (source / "build").mkdir(exist_ok=True)
    with (source / "build" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "-s", "-C", str(source), target],
            capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise BuildFailed(done.stdout + done.stderr)
