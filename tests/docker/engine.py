"""A Docker engine: the one that answers already, else one of our own for the time of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import docker

DEFAULT_HOST = "unix:///var/run/docker.sock"
START_S = 60
STOP_S = 60
CALL_S = 300


class NoEngineError(Exception):
    """Why the tests cannot run here."""


class Engine:
    """An engine that answers. `client` speaks to it; programs find it by `environment`."""

    def __init__(self, host: str) -> None:
        self.environment = os.environ | {"DOCKER_HOST": host}
        self.client = docker.DockerClient(base_url=host, timeout=CALL_S)

    def close(self) -> None:
        self.client.close()


def answers(host: str) -> bool:
    """Asked by hand, since the docker package leaves sockets open where nobody answers."""
    if not host.startswith("unix://"):
        return True  # Somebody named it: the tests shall fail if it is not there.
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(10)
        try:
            asking.connect(host.removeprefix("unix://"))
            asking.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in asking.recv(256)
        except OSError:
            return False


class OwnEngine(Engine):
    """dockerd with a directory of its own, which goes with it."""

    def __init__(self) -> None:
        if shutil.which("dockerd") is None:
            raise NoEngineError("no Docker engine answers, and dockerd is not installed")
        if os.geteuid() != 0:
            raise NoEngineError("no Docker engine answers, and only root can start one")
        # Short: a socket's path has to fit into 108 bytes. Not /tmp, which may be memory.
        self.directory = Path(tempfile.mkdtemp(prefix="hw-docker-", dir="/var/tmp"))
        host = f"unix://{self.directory}/docker.sock"
        self._log = (self.directory / "log").open("wb")
        self._process = subprocess.Popen(
            [
                "dockerd",
                *("--host", host),
                *("--data-root", str(self.directory / "data")),
                *("--exec-root", str(self.directory / "exec")),
                *("--pidfile", str(self.directory / "pid")),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_S
        while not answers(host):
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = (self.directory / "log").read_text(errors="replace").splitlines()
                self._end()
                raise NoEngineError(f"dockerd does not run here: {lines[-1] if lines else ''}")
            time.sleep(0.2)
        super().__init__(host)

    def close(self) -> None:
        super().close()
        self._end()

    def _end(self) -> None:
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
    host = os.environ.get("DOCKER_HOST", DEFAULT_HOST)
    return Engine(host) if answers(host) else OwnEngine()
