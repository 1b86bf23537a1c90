"""A Docker engine: the one that answers already, else one of our own for the time of the tests.

Ours shares nothing with the machine but the kernel: its network (bridges, subnets, firewall rules),
its mounts and its processes are in namespaces of their own, and its files in a directory of its
own. So any number of them run beside each other and beside an engine of the machine's, and the
kernel takes everything away with the engine, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import docker
import psutil
import pytest

from tests.docker.engine_network import EngineNetwork

REQUIRED = "HIGHWATER_TEST_ENGINE"
DEFAULT_HOST = "unix:///var/run/docker.sock"
# Short: a socket's path has to fit into 108 bytes. Not /tmp, which may be memory, and never inside
# of what the images are built from.
WORK = Path("/var/tmp")
PREFIX = "hw-docker-"
CGROUPS = Path("/sys/fs/cgroup")
START_S = 60
STOP_S = 60
NEW_S = 60
CALL_S = 300
PROGRAMS = ("dockerd", "ip", "iptables", "unshare", "nsenter", "setpriv")

# The first waits until its network is there; the second is the first process in namespaces of
# processes and mounts. A containerd of the machine's is hidden, or dockerd would use that one.
_ENTER = """
set -eu
echo started
read -r _
exec unshare --mount --pid --fork --kill-child --mount-proc sh -c "$0" sh "$@" </dev/null >log 2>&1
"""
_RUN = """
mkdir -p /run/containerd
mount -t tmpfs tmpfs /run/containerd
"$@" &
wait $!
"""


class NoEngineError(Exception):
    """Why the tests cannot run here."""


def skip_or_fail(error: NoEngineError) -> NoReturn:
    """Ends a test that cannot run here: skipped, failed where REQUIRED says that it has to run."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{error}, and {REQUIRED} is set", pytrace=False)
    pytest.skip(str(error))


class Engine:
    """An engine that answers. `client` speaks to it; programs find it by `environment`."""

    build_network: str | None = None
    """The network that builds use; None is the engine's choice."""
    address = "127.0.0.1"
    """Where this machine reaches ports that containers publish."""
    client_address: str | None = None
    """Whence this machine's clients come; None if an engine's proxy stands for them."""

    def __init__(self, host: str) -> None:
        self.environment = os.environ | {"DOCKER_HOST": host}
        self.client = docker.DockerClient(base_url=host, timeout=CALL_S)

    def isolate(self) -> None:
        """To be called when all images are there, before containers are."""

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
    """dockerd with a directory of its own, which goes with it.

    It begins in the machine's network, where builds reach what the machine reaches, without a
    bridge and a firewall rule of its own. `isolate` moves it.
    """

    build_network = "host"

    def __init__(self) -> None:
        _check_machine()
        sweep()
        self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=WORK))
        self._lock = _try_lock(self.directory)
        self._process: subprocess.Popen[bytes] | None = None
        self._network: EngineNetwork | None = None
        self._host = f"unix://{self.directory}/docker.sock"
        try:
            self._start("--iptables=false", "--ip-forward=false", "--ip-masq=false")
        except BaseException:
            self._remove()
            raise
        super().__init__(self._host)

    def isolate(self) -> None:
        self._end()
        self._network = EngineNetwork()
        self._start()
        self.address, self.client_address = self._network.inside, self._network.outside

    def close(self) -> None:
        super().close()
        self._remove()

    def _start(self, *options: str) -> None:
        (self.directory / "daemon.json").write_text("{}")
        alone = [] if self._network is None else ["unshare", "--net"]
        self._process = subprocess.Popen(
            # Killed with the tests, whatever ends them; the kernel then ends all that it started.
            [
                *("setpriv", "--pdeathsig", "KILL", *alone, "sh", "-c", _ENTER, _RUN, "dockerd"),
                *("--host", self._host),
                *("--config-file", str(self.directory / "daemon.json")),
                *("--data-root", str(self.directory / "data")),
                *("--exec-root", str(self.directory / "exec")),
                *("--pidfile", str(self.directory / "pid")),
                *("--cgroup-parent", f"/{self.directory.name}"),
                *("--exec-opt", "native.cgroupdriver=cgroupfs"),
                *("--bridge", "none", *options),
            ],
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        started = self._process.stdout.readline()
        if started != b"started\n":
            raise NoEngineError(f"no namespaces for an engine: {started.decode().strip()}")
        if self._network is not None:
            self._network.connect(self._process.pid)
        self._process.stdin.write(b"go\n")
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
        deadline = time.monotonic() + START_S
        while not answers(self._host):
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = (self.directory / "log").read_text(errors="replace").splitlines()
                raise NoEngineError(f"dockerd does not run here: {lines[-1] if lines else ''}")
            time.sleep(0.1)

    def _end(self) -> None:
        """Ends dockerd in good order, so that its images are whole."""
        assert self._process is not None
        for process in _family(self._process):
            with suppress(psutil.NoSuchProcess):  # Its children come and go.
                if process.name() == "dockerd":
                    process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._kill()

    def _kill(self) -> None:
        """Ends everything in dockerd's namespaces; networks and mounts go with the last of it."""
        if self._process is None:
            return
        family = _family(self._process)
        self._process.kill()
        self._process.wait(STOP_S)
        psutil.wait_procs(family, timeout=STOP_S)
        self._process = None

    def _remove(self) -> None:
        self._kill()
        _remove_files(self.directory)
        os.close(self._lock)


def find_engine() -> Engine:
    """Raises NoEngineError."""
    host = os.environ.get("DOCKER_HOST", DEFAULT_HOST)
    return Engine(host) if answers(host) else OwnEngine()


def sweep() -> None:
    """Removes directories of engines that were killed together with their tests."""
    for directory in WORK.glob(f"{PREFIX}*"):
        try:
            if time.time() - directory.stat().st_mtime < NEW_S:
                continue  # It may be about to be locked.
            lock = _try_lock(directory)
        except OSError:
            continue  # Somebody uses it, or has removed it meanwhile.
        _remove_files(directory)
        os.close(lock)


def _remove_files(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for top in (*CGROUPS.glob(directory.name), *CGROUPS.glob(f"*/{directory.name}")):
        for group, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):  # The kernel may be about to end the last process in it.
                Path(group).rmdir()


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _try_lock(directory: Path) -> int:
    """A descriptor that holds the directory until it is closed. Raises OSError."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _check_machine() -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise NoEngineError(f"no Docker engine answers, and {missing[0]} is not installed")
    if os.geteuid() != 0:
        raise NoEngineError("no Docker engine answers, and only root can start one")
