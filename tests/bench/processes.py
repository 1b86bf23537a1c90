"""Waits until a signal takes effect on a process, a little after it was sent."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

POLL_S = 0.001
_ENDED = frozenset("ZX")
_STOPPED = frozenset("tT")


def end_orderly_on_sigterm() -> None:
    """Makes SIGTERM clean up: otherwise brokers would outlive this process."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def state(pid: int) -> str:
    """The letter of /proc/PID/stat, as in proc(5); "X" when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    # The command name may contain spaces; the fields behind its closing bracket cannot.
    return stat.rpartition(")")[2].split()[0]


def wait_until_ended(pid: int, timeout_s: float) -> float:
    """Returns the time when it was found to have ended, reaped or not. Raises TimeoutError."""
    return _wait(pid, _ENDED, timeout_s, "end")


def wait_until_stopped(pid: int, timeout_s: float) -> float:
    """Returns the time when it was found to be stopped. Raises TimeoutError."""
    return _wait(pid, _STOPPED, timeout_s, "stop")


def _wait(pid: int, wanted: frozenset[str], timeout_s: float, what: str) -> float:
    deadline = time.monotonic() + timeout_s
    while state(pid) not in wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} did not {what} within {timeout_s:g} s")
        time.sleep(POLL_S)
    return time.monotonic()
