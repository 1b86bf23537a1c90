"""Highwater as a peer: one process, or a process per service, with one node or three."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.embed.supervisor.readiness import serves_all_nodes
from tests.bench.credentials import PASSWORD, USER
from tests.bench.peer import RETENTION_CHECK_MS, BreakablePeer, first_line
from tests.bench.workloads import Security
from tests.support.measured_process import tail, wait_for_exit, wait_until_listening
from tests.support.process import free_port_block

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05

HIGHWATER = Path(sys.executable).with_name("highwater")
EMBEDDED = "embedded"
_WHERE = ("--host", "127.0.0.1", "--port", "{port}", "--data-dir", "{data}")
# The commands that start `highwater`; change its options only here.
HIGHWATER_COMMANDS: Mapping[str, tuple[str, ...]] = {
    EMBEDDED: ("up", *_WHERE),
    "combined": ("up", "--nodes", "1", "--gateways", "0", *_WHERE),
    "services": ("up", "--nodes", "1", "--separate", *_WHERE),
    "combined2": ("up", "--nodes", "2", *_WHERE),
    "combined3": ("up", "--nodes", "3", *_WHERE),
    "services3": ("up", "--nodes", "3", "--separate", *_WHERE),
}
HIGHWATER_NODES: Mapping[str, int] = {
    EMBEDDED: 1, "combined": 1, "combined2": 2, "combined3": 3, "services": 1, "services3": 3,
}  # fmt: skip
HIGHWATER_ENVIRONMENT = {"HIGHWATER_PARTITION_RETENTION_CHECK_INTERVAL_MS": str(RETENTION_CHECK_MS)}
# Topic options that only Highwater knows.
HIGHWATER_DEEP_VALIDATION = {"record.validation": "deep"}
# Bootstrap, and one port for each node; of each listener.
HIGHWATER_PORT_BLOCK = 8
_PIDS_FILE = "pids.json"


class Highwater(BreakablePeer):
    """`highwater up` in one of its modes, with its own data directory.

    Its supervisor restarts an ended node after 0.2 s. To measure how the others continue without
    it, `hold` pauses the supervisor, which handles no data.
    """

    can_be_secured = True

    def __init__(self, mode: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` has further settings."""
        self.name = mode
        self._environment = {**HIGHWATER_ENVIRONMENT, **(environment or {})}
        self.nodes = HIGHWATER_NODES[mode]
        self._root: Path | None = None
        self._port = 0
        self._ports: dict[Security, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix=f"highwater-{self.name}-"))
        others = self.listeners.securities if self.listeners else ()
        self._port = free_port_block(HIGHWATER_PORT_BLOCK * (1 + len(others)))
        self._ports = {
            security: self._port + HIGHWATER_PORT_BLOCK * number
            for number, security in enumerate(others, 1)
        }
        self.bootstrap = f"127.0.0.1:{self._port}"

    def launch(self) -> None:
        assert self._root is not None
        words = HIGHWATER_COMMANDS[self.name]
        command = [word.format(port=self._port, data=self.data_dir) for word in words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(HIGHWATER), *command, *self._listener_flags()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root,
                env={**os.environ, **self._environment},
            )  # fmt: skip

    def wait_ready(self) -> None:
        assert self._process is not None
        try:
            wait_until_listening(self._process, self._port, START_TIMEOUT_S)
            self._wait_for_nodes()
            for port in self._ports.values():
                wait_until_listening(self._process, port, START_TIMEOUT_S)
            if Security.LOGIN in self._ports:
                self._make_user()
        except RuntimeError as error:
            raise RuntimeError(f"highwater ({self.name}): {error}\n{tail(self._log)}") from error

    def address_of(self, security: Security) -> str:
        if security not in self._ports:
            return super().address_of(security)
        return f"127.0.0.1:{self._ports[security]}"

    def stop(self) -> None:
        if self._process is not None:
            self._let_supervisor_go_on()
            wait_for_exit(self._process, STOP_TIMEOUT_S)
            self._process = None
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replication: int = 1,
        deep: bool = False,
    ) -> None:
        extra = HIGHWATER_DEEP_VALIDATION if deep else {}
        super().create_topic(name, partitions, {**configs, **extra}, replication=replication)

    def pids(self) -> Sequence[int]:
        return [self._process.pid] if self._process else []

    def version(self) -> str:
        return f"Highwater {first_line([str(HIGHWATER), '--version'])}, {self.name}"

    def node_pid(self, node_id: int) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        if self.name == EMBEDDED:
            return self._process.pid
        try:
            pids: dict[str, int] = json.loads((self.data_dir / _PIDS_FILE).read_text())
            return pids[f"{self._node_name}-{node_id}"]
        except (OSError, KeyError) as error:
            raise RuntimeError(f"node {node_id} of {self.name} does not run: {error}") from None

    def hold(self) -> None:
        if self.name != EMBEDDED:
            assert self._process is not None
            os.kill(self._process.pid, signal.SIGSTOP)

    def bring_back(self, node_id: int) -> None:
        assert self._process is not None
        if self.name == EMBEDDED:
            self._process.wait(timeout=STOP_TIMEOUT_S)
            self.launch()
        else:
            self._let_supervisor_go_on()

    def _listener_flags(self) -> list[str]:
        settings = []
        for security, port in self._ports.items():
            assert self.listeners is not None
            shown = self.listeners.credentials
            name = f"gateway.listeners.{security.value}"
            settings.append(f"{name}.port={port}")
            if security is Security.TLS:
                settings.append(f"{name}.tls.cert_file={shown.certificate}")
                settings.append(f"{name}.tls.key_file={shown.key}")
            else:
                settings.append(f'{name}.sasl_mechanisms=["PLAIN"]')
        return [word for setting in settings for word in ("--set", setting)]

    def _make_user(self) -> None:
        words = ("user", "set", USER, "--password-file", "-", "--data-dir", str(self.data_dir))
        done = subprocess.run(
            [str(HIGHWATER), *words], input=f"{PASSWORD}\n",
            capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"no user: {done.stderr}")

    def _let_supervisor_go_on(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)

    def _wait_for_nodes(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not serves_all_nodes("127.0.0.1", self._port, self.nodes):
            if self._process.poll() is not None:
                raise RuntimeError(f"ended with {self._process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"fewer than {self.nodes} nodes serve")
            time.sleep(POLL_S)

    @property
    def _node_name(self) -> str:
        return "node" if self.name.startswith("combined") else "partition"

    @property
    def data_dir(self) -> Path:
        """Where commands find the cluster, while it runs."""
        assert self._root is not None
        return self._root / "data"

    @property
    def _log(self) -> Path:
        assert self._root is not None
        return self._root / "stdout.log"
