"""Real etcd servers for tests: one member or a cluster, on loopback, in temporary directories."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0


_BUILT = Path(__file__).parents[2] / ".cache" / "etcd" / "etcd"

VERSIONS: Mapping[str, str] = {"etcd": "etcd", "etcd36": str(_BUILT)}
"""Version -> program: the distribution's etcd, and the one that `make newer-etcd` builds."""


def etcd_missing(version: str = "etcd") -> str | None:
    """Why there is no etcd of that version to test with, or None."""
    if not shutil.which("etcd") or not shutil.which("etcdctl"):
        return "no etcd and etcdctl on the path"
    if not shutil.which(VERSIONS[version]):
        return f"no {version}: `make newer-etcd` builds it, and `make full` needs it"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdTls:
    """PEM files for a server that requires client certificates; all use the same certificate."""

    ca: Path
    cert: Path
    key: Path

    def server_flags(self) -> list[str]:
        return [
            f"--trusted-ca-file={self.ca}",
            f"--cert-file={self.cert}",
            f"--key-file={self.key}",
            "--client-cert-auth",
        ]

    def ctl_flags(self) -> list[str]:
        return [f"--cacert={self.ca}", f"--cert={self.cert}", f"--key={self.key}"]


@dataclass(slots=True)
class EtcdMemberProcess:
    """One member, killed and paused by its own process id."""

    name: str
    directory: Path
    client_port: int
    peer_port: int
    arguments: list[str]
    tls: EtcdTls | None = None
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """True if it was started and has not ended; a paused member runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Starts the member, after a kill on its former data."""
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.arguments,
                cwd=self.directory,
                stdout=log,
                stderr=log,
                env={**os.environ, "ETCDCTL_API": "3"},
            )

    def compact(self, revision: int) -> None:
        """Forgets the history up to that revision."""
        self.ctl("compact", str(revision))

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Runs an etcdctl command on this member."""
        flags = [f"--endpoints={self.endpoint}", "--command-timeout=3s"]
        if self.tls is not None:
            flags += self.tls.ctl_flags()
        return subprocess.run(
            ["etcdctl", *flags, *arguments],
            env={**os.environ, "ETCDCTL_API": "3"},
            check=check,
            capture_output=True,
            timeout=10,
        )

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)
        self.process = None

    def log_tail(self) -> str:
        path = self.directory / f"{self.name}.log"
        return path.read_text(errors="replace")[-3_000:] if path.exists() else ""


class EtcdCluster:
    """`size` members; use as a context manager."""

    def __init__(
        self,
        directory: Path,
        size: int = 1,
        *,
        version: str = "etcd",
        tls: EtcdTls | None = None,
    ) -> None:
        scheme = "http" if tls is None else "https"
        program = VERSIONS[version]
        ports = free_ports(2 * size)
        peers = {f"m{i}": ports[2 * i + 1] for i in range(size)}
        initial = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in peers.items())
        self._directory = directory
        self._initial = initial
        self.members = [
            EtcdMemberProcess(
                name=name,
                directory=directory,
                client_port=ports[2 * i],
                peer_port=port,
                tls=tls,
                arguments=[
                    program,
                    f"--name={name}",
                    f"--data-dir={directory / name}",
                    f"--listen-client-urls={scheme}://127.0.0.1:{ports[2 * i]}",
                    f"--advertise-client-urls={scheme}://127.0.0.1:{ports[2 * i]}",
                    f"--listen-peer-urls=http://127.0.0.1:{port}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{port}",
                    f"--initial-cluster={initial}",
                    "--initial-cluster-state=new",
                    *(tls.server_flags() if tls is not None else ()),
                    # Tests need no durability across power cuts, and disks here are shared.
                    "--unsafe-no-fsync"
                    if _supports_no_fsync(program)
                    else "--quota-backend-bytes=0",
                ],
            )
            for i, (name, port) in enumerate(peers.items())
        ]

    @property
    def endpoints(self) -> list[str]:
        return [member.endpoint for member in self.members]

    def __enter__(self) -> Self:
        try:
            for member in self.members:
                member.start()
            self.wait_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for member in self.members:
            member.kill()

    def leader(self) -> EtcdMemberProcess:
        """The member that leads. Raises RuntimeError if no answering member does."""
        for member in self.members:
            if member.running:
                told = member.ctl("endpoint", "status", "--write-out=json", check=False)
                for status in json.loads(told.stdout or b"[]"):
                    # During an election the field is absent: it would be 0.
                    known = status["Status"].get("leader")
                    if known == status["Status"]["header"]["member_id"]:
                        return member
        raise RuntimeError("no member of etcd leads")

    def save(self, path: Path) -> None:
        """Writes a snapshot of the current contents."""
        self.members[0].ctl("snapshot", "save", str(path))

    def restore(self, path: Path) -> None:
        """Ends all members and starts them from a snapshot; `undo_restore` brings back the data."""
        self.stop()
        for member in self.members:
            data = self._directory / member.name
            data.rename(data.with_suffix(".kept"))
            member.ctl(
                *("snapshot", "restore", str(path), f"--name={member.name}"),
                *(f"--initial-cluster={self._initial}", f"--data-dir={data}"),
                f"--initial-advertise-peer-urls=http://127.0.0.1:{member.peer_port}",
            )
        for member in self.members:
            member.start()
        self.wait_healthy()

    def undo_restore(self) -> None:
        """Starts the members on their former data again."""
        self.stop()
        for member in self.members:
            data = self._directory / member.name
            shutil.rmtree(data)
            data.with_suffix(".kept").rename(data)
            member.start()
        self.wait_healthy()

    def wait_healthy(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        for member in self.members:
            while member.ctl("endpoint", "health", check=False).returncode != 0:
                process = member.process
                if time.monotonic() > deadline or process is None or process.poll() is not None:
                    raise RuntimeError(f"etcd did not start: {member.log_tail()}")
                time.sleep(0.1)


@contextlib.contextmanager
def etcd_server(
    directory: Path, *, version: str = "etcd", tls: EtcdTls | None = None
) -> Iterator[EtcdMemberProcess]:
    """A single member."""
    with EtcdCluster(directory, version=version, tls=tls) as cluster:
        yield cluster.members[0]


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def _supports_no_fsync(program: str) -> bool:
    result = subprocess.run([program, "--help"], capture_output=True, timeout=5, check=False)
    return b"unsafe-no-fsync" in result.stdout + result.stderr
