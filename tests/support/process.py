"""Child processes of tests: own log file, a deadline on every wait, ended by their own pid."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.port_claims import PORT_CLAIMS

LOG_TAIL_BYTES = 16 * 1024
"""Bytes of a broker's log that a failing test prints: enough for several tracebacks."""

COMPLAINTS_MAX = 20

_PORTS_FROM = 10_000
_PORTS_TO = 20_000
"""Below the ports that `highwater up` chooses by itself (from 20 000 on, `embed/up/ports.py`), which other
runs of tests may be starting just now, and below those of outgoing connections (from 32 768 on)."""
_PORT_TRIES_MAX = 200
_POLL_S = 0.05


class ManagedProcess:
    """One child process in a session of its own, whose output goes to a file.

    Lifecycle: `start`, then any of `kill` and `start` again, and `stop` at the end. All calls are
    made by one thread.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """`directory` is its working directory, ours if it has none."""
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid. Raises RuntimeError if the process was never started."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def set_environment(self, name: str, value: str) -> None:
        """Sets a variable for all later starts."""
        self._environment[name] = value

    def start(self) -> None:
        """Starts the process; its output is appended to the log of former starts."""
        assert not self.running, f"{self.name} is already running"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Sends SIGKILL to the process and everything it started, and waits for its end."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)

    def wait(self, *, timeout_s: float) -> int:
        """Waits until the process has ended; returns its exit code. Raises TimeoutExpired."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._process.wait(timeout=timeout_s)

    def stop(self, *, timeout_s: float = 20.0) -> int | None:
        """Ends the process with SIGTERM, then SIGKILL; returns its exit code, None if not started.

        The exit code is -9 if it did not obey SIGTERM in time.
        """
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=timeout_s)
        code = self._process.poll()
        self.kill()
        return -signal.SIGKILL if code is None else code

    def log_tail(self, size: int = LOG_TAIL_BYTES) -> str:
        """Returns the last `size` bytes of the log, as text."""
        if not self.log_path.exists():
            return "(no log)"
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - size))
            return log.read().decode("utf-8", "replace")

    def lines_with(self, *words: str, without: Sequence[str] = ()) -> list[str]:
        """Returns the log's lines that have one of the words, at most COMPLAINTS_MAX.

        Lines with one of `without` are left out.
        """
        if not self.log_path.exists():
            return []
        with self.log_path.open(encoding="utf-8", errors="replace") as log:
            found = (
                line.strip()
                for line in log
                if any(word in line for word in words) and not any(word in line for word in without)
            )
            return list(itertools.islice(found, COMPLAINTS_MAX))


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float, what: str, poll_s: float = _POLL_S
) -> None:
    """Polls until `condition` holds. Raises TimeoutError that names `what`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(poll_s)


def accepts_connections(host: str, port: int) -> bool:
    """Whether something listens on the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


def free_port_block(count: int, host: str = "127.0.0.1") -> int:
    """Returns the first of `count` consecutive TCP ports that are free now.

    No other test process gets them at once. Another program may take one before they are used; the
    random start makes that unlikely.
    """
    chance = random.SystemRandom()
    for _ in range(_PORT_TRIES_MAX):
        first = chance.randrange(_PORTS_FROM, _PORTS_TO - count)
        ports = range(first, first + count)
        if PORT_CLAIMS.claim(ports) and all(_is_free(host, port) for port in ports):
            return first
    raise RuntimeError(f"no {count} consecutive free ports in {_PORTS_FROM}..{_PORTS_TO}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
