"""Starts, breaks and stops `highwater up` in each of its modes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from highwater.hop.settings import HopTransport
from tests.support.nodes_cluster import hop_flags
from tests.support.process import ManagedProcess, free_port_block, wait_until

HIGHWATER = Path(sys.executable).with_name("highwater")
HOST = "127.0.0.1"
READY = "Highwater is ready on"
START_TIMEOUT_S = 45.0

MODES: dict[str, tuple[int, tuple[str, ...]]] = {
    "embedded": (1, ()),
    "separate": (1, ("--separate",)),
    "nodes3": (3, ("--nodes", "3", "--separate")),
    "combined3": (3, ("--nodes", "3")),
    "grpcio3": (3, ("--nodes", "3", "--separate", *hop_flags(HopTransport.GRPCIO))),
}
"""Mode -> number of nodes and the flags that make it."""


class Up:
    """One `highwater up` on a directory of its own; it may be started again on its data."""

    def __init__(self, mode: str, directory: Path, *, extra: tuple[str, ...] = ()) -> None:
        self.mode = mode
        self.node_count, flags = MODES[mode]
        self._flags = (*flags, *extra)
        self.data_dir = directory / "data"
        self.port = free_port_block(self.node_count + 1)
        self.process = ManagedProcess(
            f"highwater up ({mode})", self.command(), log_path=directory / "cluster.log"
        )
        self._starts = 0

    def command(self, *, port: int | None = None, data_dir: Path | None = None) -> list[str]:
        return [
            str(HIGHWATER),
            "up",
            *self._flags,
            *("--host", HOST, "--port", str(port or self.port)),
            *("--data-dir", str(data_dir or self.data_dir)),
        ]

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Returns when the command says that it is ready."""
        self.process.start()
        self._starts += 1
        try:
            wait_until(self._ready, timeout_s=START_TIMEOUT_S, what=f"{self.process.name} is ready")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n\n{self.log_tail()}") from None  # Or nobody learns why.

    def _ready(self) -> bool:
        if not self.process.running:
            why = "\n".join(self.process.lines_with("highwater: ", '"level": "error"'))
            raise RuntimeError(f"{self.process.name} ended:\n{why}\n\n{self.log_tail()}")
        return self.process.log_path.read_text().count(READY) == self._starts

    def stop(self) -> int | None:
        """Sends SIGTERM; returns the exit code."""
        return self.process.stop(timeout_s=30)

    def kill(self) -> None:
        """Sends SIGKILL to the command alone, not to its children."""
        os.kill(self.process.pid, signal.SIGKILL)
        wait_until(lambda: not self.process.running, timeout_s=10, what="the end of the command")

    def pids(self) -> dict[str, int]:
        """Process name -> pid, from the supervisor's file."""
        pids: dict[str, int] = json.loads((self.data_dir / "pids.json").read_text())
        return pids

    def node_process(self, node: int) -> str:
        """The name of a node's process."""
        return f"node-{node}" if self.mode == "combined3" else f"partition-{node}"

    def log_tail(self) -> str:
        return self.process.log_tail()


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def run(*arguments: str, timeout_s: float = 40) -> subprocess.CompletedProcess[str]:
    """Runs a `highwater` command and waits for its end."""
    return subprocess.run(
        [str(HIGHWATER), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
