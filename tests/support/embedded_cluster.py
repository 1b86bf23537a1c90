"""`highwater up` in one process, as a user starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.cluster import COMPLAINT_WORDS, Node
from tests.support.measured_process import resident_bytes
from tests.support.process import (
    ManagedProcess,
    accepts_connections,
    free_port_block,
    wait_until,
)

HIGHWATER = Path(sys.executable).with_name("highwater")
"""The `highwater` script next to the interpreter that runs the tests."""

START_TIMEOUT_S = 30.0
_HOST = "127.0.0.1"


class EmbeddedCluster:
    """Implements `tests.support.cluster.Cluster` with one embedded broker process."""

    mode = "embedded"

    def __init__(
        self,
        directory: Path,
        *,
        environment: dict[str, str] | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        """`settings` are those of `--set`."""
        self._data_dir = directory / "data"
        self._port = free_port_block(1)
        self.process = ManagedProcess(
            "highwater up",
            [
                str(HIGHWATER),
                *("up", "--host", _HOST, "--port", str(self._port)),
                *("--data-dir", str(self._data_dir)),
                *(word for each in settings for word in ("--set", each)),
            ],
            log_path=directory / "broker.log",
            environment=environment,
        )
        self._node_id = 0

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self._port}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (Node(node_id=self._node_id, host=_HOST, port=self._port),)

    def start(self) -> None:
        self._start_process()
        self._node_id = node_ids_of(self.bootstrap)[0]

    def stop(self) -> None:
        self.process.stop()

    def kill_node(self, node_id: int) -> None:
        assert node_id == self._node_id
        self.process.kill()

    def restart_node(self, node_id: int) -> None:
        assert node_id == self._node_id
        self._start_process()

    def data_dir(self, node_id: int) -> Path:
        assert node_id == self._node_id
        return self._data_dir

    def resident_bytes(self) -> int:
        return resident_bytes(self.process.pid)

    def complaints(self) -> list[str]:
        return self.process.lines_with(*COMPLAINT_WORDS)

    def log_tail(self) -> str:
        return self.process.log_tail()

    def _start_process(self) -> None:
        self.process.start()
        wait_for_port(self.process, _HOST, self._port)


def wait_for_port(process: ManagedProcess, host: str, port: int) -> None:
    """Waits until the process listens. If it ends, raises RuntimeError with its log."""

    def listening() -> bool:
        if not process.running:
            raise RuntimeError(f"{process.name} ended at start:\n{process.log_tail()}")
        return accepts_connections(host, port)

    try:
        wait_until(listening, timeout_s=START_TIMEOUT_S, what=f"{process.name} on port {port}")
    except TimeoutError as error:
        process.kill()
        raise RuntimeError(f"{error}\n{process.log_tail()}") from error


def node_ids_of(bootstrap: str) -> list[int]:
    """Asks the broker for the ids in its Metadata, sorted."""
    from confluent_kafka.admin import AdminClient

    return sorted(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=15).brokers)


def raise_open_files_limit(wanted: int) -> int:
    """Raises this process's soft limit on open files (children inherit it); returns the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if os.geteuid() == 0 and limit < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
