"""The embedded broker as a child process, which ends with the demo."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tools.demo.errors import EXIT_USAGE, DemoError, UsageError
from tools.demo.producing import LOG_LEVEL

START_TIMEOUT_S = 60.0  # Recovery after a crash reads the logs from their recovery points on.
STOP_TIMEOUT_S = 30.0
METADATA_TIMEOUT_S = 2.0
POLL_S = 0.05
LOG_TAIL_LINES = 15

HIGHWATER = Path(sys.executable).with_name("highwater")


class Broker:
    """`highwater up` on an address and a data directory; use as a context manager.

    Leaving the context ends the process: SIGTERM, and SIGKILL when it takes too long.
    """

    def __init__(self, *, host: str, port: int, data_dir: Path, log_path: Path) -> None:
        self.log_path = log_path
        self._host = host
        self._port = port
        self._data_dir = data_dir
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """True if the broker was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process's id, None before it is started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the broker; returns when it answers. Raises UsageError if the port is taken."""
        if not is_free(self._host, self._port):
            raise UsageError(
                f"{self._host}:{self._port} is in use by another program: stop it, or choose "
                f"another port (make run PORT=9192)"
            )
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(HIGHWATER), "up", "--host", self._host, "--port", str(self._port),
            "--data-dir", str(self._data_dir),
        ]  # fmt: skip
        with self.log_path.open("wb") as log:
            # In a session of its own, so that Ctrl-C reaches only the demo, which stops the broker.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Ends the process, and its children if it had to be killed. Idempotent."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)

    def check_running(self) -> None:
        """If it has ended, raises DemoError with the end of its log, or UsageError with its line."""
        process = self._process
        code = None if process is None else process.poll()
        if code is None:
            return
        lines = self.log_path.read_text(errors="replace").splitlines()
        if code == EXIT_USAGE and lines:
            raise UsageError(lines[-1])
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        raise DemoError(f"the broker ended with exit code {code}:\n{tail}\n({self.log_path})")

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while is_free(self._host, self._port):
            self._check_start(deadline)
        # Wait for the port first: the client reports every refused connection.
        admin = AdminClient(
            {"bootstrap.servers": f"{self._host}:{self._port}", "log_level": LOG_LEVEL}
        )
        while True:
            try:
                admin.list_topics(timeout=METADATA_TIMEOUT_S)
            except KafkaException:
                self._check_start(deadline)
            else:
                return

    def _check_start(self, deadline: float) -> None:
        self.check_running()
        if time.monotonic() > deadline:
            raise DemoError(f"the broker does not answer after {START_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


def is_free(host: str, port: int) -> bool:
    """True if the address is free. Raises UsageError if this machine does not have it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Ignore connections that an earlier run has just closed.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            raise UsageError(f"this user may not listen on port {port}") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        return True
