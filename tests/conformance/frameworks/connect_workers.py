"""Workers of Kafka Connect in distributed mode, and the calls of their REST interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.topics import unique_name
from tests.support.frameworks import CONNECT_DISTRIBUTED, FRAMEWORK_TIMEOUT_S, framework_command
from tests.support.process import ManagedProcess, free_port_block, wait_until

_HOST = "127.0.0.1"
_CALL_TIMEOUT_S = 90.0
"""A worker answers after a rebalance, and asks the connector first whether its config is valid."""

_LATER = frozenset({404, 409, 500, 503})
"""Not found: a status that was not written yet. Conflict: a rebalance is on. The others: no leader
yet, or a timeout of a worker that starts."""


class ConnectCluster:
    """Workers that share connectors, with exactly-once support for sources.

    Lifecycle: `start` each worker by its number, then any of `kill` and `start` again, and `stop`.
    """

    def __init__(self, bootstrap: str, directory: Path, *, workers: int, replication: int) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._replication = replication
        self._name = unique_name("connect")
        first = free_port_block(workers)
        self._ports = range(first, first + workers)
        self._processes = [self._process(number) for number in range(workers)]

    def start(self, worker: int) -> None:
        """Starts it and waits until it answers for the group, as a member or its leader."""
        self._processes[worker].start()

    def wait_ready(self) -> None:
        """Waits until every worker that runs has joined."""
        for worker, process in enumerate(self._processes):
            if process.running:
                self._until_answered(worker, "GET", "/connectors")

    def kill(self, worker: int) -> None:
        self._processes[worker].kill()

    def stop(self) -> None:
        for process in self._processes:
            process.stop()

    def log_tail(self) -> str:
        return "\n".join(process.log_tail(4000) for process in self._processes)

    def put_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Creates the connector by the first worker that runs; returns when its tasks run."""
        self._until_answered(self._any_worker(), "PUT", f"/connectors/{name}/config", config)
        self.wait_until_running(name)

    def wait_until_running(self, name: str) -> None:
        wait_until(
            lambda: self._runs(name),
            timeout_s=FRAMEWORK_TIMEOUT_S,
            what=f"a running connector {name}",
            poll_s=0.5,
        )

    def worker_of_task(self, name: str) -> int:
        """The number of the worker that has the connector's only task."""
        status = self._call(self._any_worker(), "GET", f"/connectors/{name}/status")
        [task] = status["tasks"]
        return self._ports.index(int(task["worker_id"].rpartition(":")[2]))

    def _runs(self, name: str) -> bool:
        """True if the connector and its only task run on workers that run."""
        status = self._call(self._any_worker(), "GET", f"/connectors/{name}/status")
        if status is None:
            return False
        parts = [status["connector"], *status["tasks"]]
        failed = [part for part in parts if part["state"] == "FAILED"]
        assert not failed, failed
        ports = {
            port for port, one in zip(self._ports, self._processes, strict=True) if one.running
        }
        return len(status["tasks"]) == 1 and all(
            part["state"] == "RUNNING" and int(part["worker_id"].rpartition(":")[2]) in ports
            for part in parts
        )

    def _any_worker(self) -> int:
        return next(n for n, process in enumerate(self._processes) if process.running)

    def _until_answered(
        self, worker: int, method: str, path: str, body: Mapping[str, str] | None = None
    ) -> None:
        wait_until(
            lambda: self._call(worker, method, path, body) is not None,
            timeout_s=FRAMEWORK_TIMEOUT_S,
            what=f"{method} {path} of worker {worker}",
            poll_s=0.5,
        )

    def _call(
        self, worker: int, method: str, path: str, body: Mapping[str, str] | None = None
    ) -> Any:
        """The answer; None if the worker does not listen yet, or cannot answer yet.

        Raises AssertionError if it has ended, or refuses what was asked.
        """
        process = self._processes[worker]
        assert process.running, f"worker {worker} has ended: {process.log_tail(4000)}"
        request = urllib.request.Request(
            f"http://{_HOST}:{self._ports[worker]}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _LATER:
                    raise AssertionError(f"{method} {path}: {error.read().decode()}") from error
            return None
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return None

    def _process(self, number: int) -> ManagedProcess:
        properties = self._directory / f"worker-{number}.properties"
        values = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._name,
            "exactly.once.source.support": "enabled",
            "listeners": f"http://{_HOST}:{self._ports[number]}",
            "rest.advertised.host.name": _HOST,
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "1000",
            # By default the tasks of a worker that has gone wait for it for 5 minutes.
            "scheduled.rebalance.max.delay.ms": "1000",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "2000",
        }
        for kind in ("config", "offset", "status"):
            values[f"{kind}.storage.topic"] = f"{self._name}-{kind}"
            values[f"{kind}.storage.replication.factor"] = str(self._replication)
        values["offset.storage.partitions"] = values["status.storage.partitions"] = "2"
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return ManagedProcess(
            f"worker {number}",
            framework_command(CONNECT_DISTRIBUTED, str(properties)),
            log_path=self._directory / f"worker-{number}.log",
        )
