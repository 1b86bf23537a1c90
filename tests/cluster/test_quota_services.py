"""Two quota services as processes: the preferred one is killed under load, and comes back."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.produce_load import Load, greatest_in_any
from tests.cluster.runner import HIGHWATER, HOST, run
from tests.support.process import ManagedProcess, free_port_block, wait_until

NODES = 2
START_S = 60.0
RATE_LIMIT = 500_000
WINDOW_S = 10.0
TOLERANCE = 1.02
WARM_UP_S = 8.0
RETURN_S = 45.0
"""Nodes try the preferred service again every 30 s."""
STREAMS = "highwater_quota_report_streams"
ONE_BY_ONE: dict[str, str | int] = {
    "max.in.flight": 1,
    "batch.num.messages": 1,
    "queue.buffering.max.messages": 10,
}
"""What a client has under way passes the limit before it hears of it; here that is a record."""
RECORD = b"x" * 5_000


class QuotaCluster:
    """A controller, two nodes with their gateways, and two quota services, each a process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._gateway = free_port_block(NODES + 1)
        self._own = free_port_block(5)
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
                {"metrics.port": self._own + 3 + number},
                host=HOST,
                port=self._own + 1 + number,
                controllers=controllers,
            )
            for number in range(2)
        ]
        self._processes += self.quotas
        self._processes += [self._node(node, controllers) for node in range(1, NODES + 1)]

    def __enter__(self) -> Self:
        try:
            for process in self._processes:
                process.start()
            wait_until(self._serves, timeout_s=START_S, what="both nodes in Metadata")
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
        url = f"http://{HOST}:{self._own + 3 + quota}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                lines: list[str] = answer.read().decode().splitlines()
        except OSError:
            return -1
        return int(float(next(line.split()[1] for line in lines if line.startswith(STREAMS))))

    def wait_for_streams(self, first: int, second: int, timeout_s: float) -> None:
        wait_until(
            lambda: (self.streams(0), self.streams(1)) == (first, second),
            timeout_s=timeout_s,
            what=f"{first} and {second} nodes at the quota services",
        )

    def _serves(self) -> bool:
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        with contextlib.suppress(KafkaException):
            return len(client.list_topics(timeout=5).brokers) == NODES
        return False

    def _node(self, node: int, controllers: list[str]) -> ManagedProcess:
        addresses = ",".join(f"{HOST}:{self._own + 1 + number}" for number in range(2))
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


@pytest.fixture
def services(tmp_path: Path) -> Iterator[QuotaCluster]:
    with QuotaCluster(tmp_path) as made:
        yield made


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_limit_holds_while_one_dies_and_comes_back(services: QuotaCluster) -> None:
    client = AdminClient({"bootstrap.servers": services.bootstrap})
    client.create_topics([NewTopic("hot", NODES, 1)])["hot"].result(START_S)
    wanted = ("--produce-bytes-per-second", str(RATE_LIMIT), "--controller", services.controller)
    done = run("quota", "set", *wanted)
    assert done.returncode == 0, done.stderr
    services.wait_for_streams(NODES, 0, START_S)

    loads = [
        Load(
            services.bootstrap,
            "hot",
            partition=partition,
            clients=3 - 2 * partition,
            record=RECORD,
            settings=ONE_BY_ONE,
        )
        for partition in range(NODES)
    ]
    with loads[0], loads[1]:
        time.sleep(WARM_UP_S)
        measured_s = time.monotonic()
        services.quotas[0].kill()
        services.wait_for_streams(-1, NODES, START_S)
        time.sleep(WINDOW_S / 2)
        services.quotas[0].start()
        services.wait_for_streams(NODES, 0, RETURN_S)
        time.sleep(WINDOW_S / 2)
        ended_s = time.monotonic()
    assert [load.errors for load in loads] == [[], []]
    both = sorted(one for load in loads for one in load.acknowledged if one[0] > measured_s)
    assert greatest_in_any(WINDOW_S, both) <= TOLERANCE * RATE_LIMIT * WINDOW_S
    during = sum(nbytes for at_s, nbytes in both if at_s < ended_s)
    assert during >= 0.3 * RATE_LIMIT * (ended_s - measured_s), "clients went on"


def test_the_greatest_amount_in_a_window() -> None:
    assert greatest_in_any(10, []) == 0
    assert greatest_in_any(10, [(0.0, 5), (9.9, 1), (10.0, 2), (19.0, 3)]) == 6


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)
