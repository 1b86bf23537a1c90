"""Measures processes for tests and benchmarks: open ports, memory, page faults, processor time."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_S = 0.02


def process_tree(pid: int) -> Iterator[int]:
    """`pid` and its living descendants."""
    pending = [pid]
    while pending:
        current = pending.pop()
        try:
            for task in Path(f"/proc/{current}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield current


def resident_bytes(pid: int) -> int:
    """Resident memory of the whole tree, as the sum of VmRSS: shared pages count twice."""
    total = 0
    for each in process_tree(pid):
        try:
            status = Path(f"/proc/{each}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total


def cpu_seconds(pid: int) -> float:
    """User and system time used so far by the living processes of the tree.

    /proc/PID/stat has it in steps of 10 ms, which is too coarse for a process that does nothing.
    """
    total = 0.0
    for each in process_tree(pid):
        try:
            total += time.clock_gettime(_cpu_clock(each))
        except OSError as error:
            # As the kernel names a clock whose process has ended.
            if error.errno != errno.EINVAL:
                raise
    return total


def minor_faults(pid: int) -> int:
    """Page faults without I/O so far, of the living processes of the tree.

    Each maps a page: fresh memory, which the kernel clears, or one of the page cache.
    """
    total = 0
    for each in process_tree(pid):
        try:
            stat = Path(f"/proc/{each}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The command name may hold spaces; everything behind its closing bracket may not.
        total += int(stat.rpartition(")")[2].split()[7])
    return total


def _cpu_clock(pid: int) -> int:
    """What clock_getcpuclockid(3) returns: the complement of the pid, and 2 for all threads' time."""
    return ~pid << 3 | 2


def wait_for_exit(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """SIGTERM, then SIGKILL after `timeout_s`, to this process only."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=timeout_s)


def tail(path: Path, characters: int = 3000) -> str:
    """The end of a log file, for an error message."""
    return path.read_text(errors="replace")[-characters:] if path.exists() else "(no log)"


def wait_until_listening(process: subprocess.Popen[bytes], port: int, timeout_s: float) -> None:
    """Returns when 127.0.0.1:port accepts. Raises RuntimeError when the process ends or is late."""
    deadline = time.monotonic() + timeout_s
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"process {process.pid} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"port {port} not open after {timeout_s} s") from None
            time.sleep(_POLL_S)
        else:
            return
