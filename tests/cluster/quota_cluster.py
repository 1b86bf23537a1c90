"""A cluster of processes with quota services of its own, whose metrics tests read."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.cluster.runner import HIGHWATER, HOST, run
from tests.support.process import ManagedProcess, free_port_block, wait_until

START_S = 60.0
STREAMS = "highwater_quota_report_streams"
OVERCOMMIT = "highwater_quota_overcommit_ratio{"


class QuotaCluster:
    """A controller, nodes with their gateways, and quota services, each a process. Node n is in rack-n."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        quotas: int = 1,
        policy: str = "waterfill",
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        """`partition` has settings of all nodes."""
        self._directory = directory
        self._nodes = nodes
        self._partition = partition or {}
        self._gateway = free_port_block(nodes + 1)
        self._own = free_port_block(1 + 2 * quotas)
        self._metrics = self._own + 1 + quotas
        self.controller = f"{HOST}:{self._own}"
        controllers = [self.controller]
        self._processes = [
            self._service(
                "controller",
                host=HOST,
                port=self._own,
                controller_id="controller-1",
                data_dir=str(directory / "controller"),
            )
        ]
        self.quotas = [
            self._service(
                "quota",
                number,
                {"metrics.port": self._metrics + number, "policy": policy},
                host=HOST,
                port=self._own + 1 + number,
                controllers=controllers,
            )
            for number in range(quotas)
        ]
        self._processes += self.quotas
        self.nodes = {node: self._node(node, controllers) for node in range(1, nodes + 1)}
        self._processes += self.nodes.values()

    def __enter__(self) -> Self:
        try:
            for process in self._processes:
                process.start()
            wait_until(self._serves, timeout_s=START_S, what="all nodes in Metadata")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._gateway}"

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()

    def streams(self, quota: int) -> int:
        """How many nodes report to the service; -1 while it does not run."""
        lines = self._metric_lines(quota)
        if not lines:
            return -1
        return int(float(next(line.split()[1] for line in lines if line.startswith(STREAMS))))

    def overcommit(self, direction: str) -> float:
        """The sum of shares of the default instance, as the first service divides them; 0 without a limit."""
        for line in self._metric_lines(0):
            if line.startswith(OVERCOMMIT) and f'direction="{direction}"' in line:
                return float(line.split()[-1])
        return 0.0

    def _metric_lines(self, quota: int) -> list[str]:
        url = f"http://{HOST}:{self._metrics + quota}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                lines: list[str] = answer.read().decode().splitlines()
        except OSError:
            return []
        return lines

    def set_limit(self, flag: str, bytes_per_second: int) -> None:
        """One of `highwater quota set`."""
        done = run("quota", "set", flag, str(bytes_per_second), "--controller", self.controller)
        assert done.returncode == 0, done.stderr

    def wait_for_streams(self, first: int, second: int, timeout_s: float) -> None:
        wait_until(
            lambda: (self.streams(0), self.streams(1)) == (first, second),
            timeout_s=timeout_s,
            what=f"{first} and {second} nodes at the quota services",
        )

    def _serves(self) -> bool:
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        with contextlib.suppress(KafkaException):
            return len(client.list_topics(timeout=5).brokers) == self._nodes
        return False

    def _node(self, node: int, controllers: list[str]) -> ManagedProcess:
        addresses = ",".join(
            f"{HOST}:{self._own + 1 + number}" for number in range(len(self.quotas))
        )
        settings = {
            "broker.roles": ["gateway", "partition"],
            "broker.controllers": controllers,
            "gateway.host": HOST,
            "gateway.port": self._gateway,
            "gateway.gateway_id": f"node-{node}",
            "gateway.bootstrap_wait_s": 10 if node > 1 else 0,
            "partition.node_id": node,
            "partition.port": 0,
            "partition.log_dirs": [str(self._directory / f"node-{node}")],
            "partition.quota_address": addresses,
            "partition.rack": f"rack-{node}",
            **{f"partition.{name}": value for name, value in self._partition.items()},
        }
        return self._service("broker", node, settings)

    def _service(
        self, name: str, number: int = 0, more: dict[str, Any] | None = None, **settings: Any
    ) -> ManagedProcess:
        words = [
            word
            for setting, value in ({**settings, **(more or {})}).items()
            for word in ("--set", f"{setting}={_as_text(value)}")
        ]
        return ManagedProcess(
            f"{name} {number}",
            [str(HIGHWATER), name, *words],
            log_path=self._directory / f"{name}-{number}.log",
        )


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)
