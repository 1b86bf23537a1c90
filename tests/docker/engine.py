"""A Docker engine: the one that answers already, else one of our own for the time of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import docker
from docker.errors import DockerException

START_S = 60
STOP_S = 60
CALL_S = 300


class NoEngineError(Exception):
    """Why the tests cannot run here."""


class Engine:
    """`client` speaks to it; programs find it by `environment`."""

    def __init__(self, host: str | None) -> None:
        self.environment = dict(os.environ)
        if host is None:
            self.client = docker.from_env(timeout=CALL_S)
        else:
            self.environment["DOCKER_HOST"] = host
            self.client = docker.DockerClient(base_url=host, timeout=CALL_S)

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except (DockerException, OSError):
            return False

    def close(self) -> None:
        self.client.close()


class OwnEngine(Engine):
    """dockerd with a directory of its own, which goes with it."""

    def __init__(self) -> None:
        if shutil.which("dockerd") is None:
            raise NoEngineError("no Docker engine answers, and dockerd is not installed")
        if os.geteuid() != 0:
            raise NoEngineError("no Docker engine answers, and only root can start one")
        # Short: a socket's path has to fit into 108 bytes. Not /tmp, which may be memory.
        self.directory = Path(tempfile.mkdtemp(prefix="hw-docker-", dir="/var/tmp"))
        socket = f"unix://{self.directory}/docker.sock"
        self._log = (self.directory / "log").open("wb")
        self._process = subprocess.Popen(
            [
                "dockerd",
                *("--host", socket),
                *("--data-root", str(self.directory / "data")),
                *("--exec-root", str(self.directory / "exec")),
                *("--pidfile", str(self.directory / "pid")),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        super().__init__(socket)
        deadline = time.monotonic() + START_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = (self.directory / "log").read_text(errors="replace").splitlines()
                self.close()
                raise NoEngineError(f"dockerd does not run here: {lines[-1] if lines else ''}")
            time.sleep(0.2)

    def close(self) -> None:
        super().close()
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def find_engine() -> Engine:
    """Raises NoEngineError."""
    try:
        there = Engine(None)
    except DockerException:
        return OwnEngine()
    if there.answers():
        return there
    there.close()
    return OwnEngine()
