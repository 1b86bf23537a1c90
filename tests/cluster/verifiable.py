"""Kafka's Java VerifiableProducer and VerifiableConsumer, with the events that they print."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.clients.line_process import LineProcess
from tests.support.java_tools import VERIFIABLE_CONSUMER, VERIFIABLE_PRODUCER, java_command
from tests.support.process import wait_until

KEYS = 24
"""Different keys, so that every partition gets some of the records."""

Place = tuple[int, int]
"""(partition, offset) of a record."""


class _Verifiable:
    """One of the two tools: `heard` gets the JSON events that it prints, on another thread."""

    def __init__(self, tool: str, *arguments: str) -> None:
        self._done = threading.Event()
        self._process = LineProcess(java_command(tool, *arguments), on_line=self._on_line)

    def heard(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def _on_line(self, line: str) -> None:
        event: dict[str, Any] = json.loads(line)
        self.heard(event)
        if event["name"] == "shutdown_complete":
            self._done.set()

    def wait(self, condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Waits until its events meet the condition. Raises ProgramError if it ends before."""

        def holds() -> bool:
            if condition():
                return True
            if not self._done.is_set():
                self._process.check()
            return False

        wait_until(holds, timeout_s=timeout_s, what=what)

    def close(self) -> None:
        self._process.close()


class VerifiableProducer(_Verifiable):
    """Writes "0", "1", ... up to `count` at a steady rate, and ends by itself."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        count: int,
        per_second: int,
        settings: Path,
        acks: int = -1,
    ) -> None:
        """`settings` is a file of properties; without it the tool would never send again."""
        self.acknowledged: dict[Place, int] = {}
        self.acknowledged_ms: dict[int, list[int]] = {}
        """Times of acknowledgements by partition, on the wall clock."""
        self.twice: list[Place] = []
        """Places that were reported for two records."""
        self.failed: list[str] = []
        super().__init__(
            VERIFIABLE_PRODUCER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--acks", str(acks)),
            *("--max-messages", str(count), "--throughput", str(per_second)),
            *("--repeating-keys", str(KEYS), "--command-config", str(settings)),
        )

    def heard(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "producer_send_success":
                place = event["partition"], event["offset"]
                if place in self.acknowledged:
                    self.twice.append(place)
                self.acknowledged[place] = int(event["value"])
                self.acknowledged_ms.setdefault(place[0], []).append(event["timestamp"])
            case "producer_send_error":
                self.failed.append(f"{event['value']}: {event['exception']} {event['message']}")
            case _:
                pass

    def wait_for_acks(self, count: int, *, timeout_s: float) -> None:
        self.wait(
            lambda: len(self.acknowledged) >= count or bool(self.failed),
            timeout_s=timeout_s,
            what=f"{count} acknowledgements",
        )

    def wait_for_end(self, *, timeout_s: float) -> None:
        """Waits until every record is acknowledged or has failed."""
        self.wait(self._done.is_set, timeout_s=timeout_s, what="the end of the producer")


class VerifiableConsumer(_Verifiable):
    """The only member of a group; commits after each poll."""

    def __init__(self, bootstrap: str, topic: str, group: str, *, session_ms: int = 10_000) -> None:
        self.read: list[tuple[Place, int]] = []
        self.assignments: list[frozenset[int]] = []
        self.commits = 0
        self.failed_commits: list[str] = []
        super().__init__(
            VERIFIABLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
            *("--session-timeout", str(session_ms), "--reset-policy", "earliest", "--verbose"),
        )

    def heard(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "partitions_assigned":
                self.assignments.append(frozenset(one["partition"] for one in event["partitions"]))
            case "record_data":
                place = event["partition"], event["offset"]
                self.read.append((place, int(event["value"])))
            case "offsets_committed" if event["success"]:
                self.commits += 1
            case "offsets_committed":
                self.failed_commits.append(str(event.get("error")))
            case _:
                pass

    def wait_for_assignment(self, *, timeout_s: float) -> None:
        self.wait(lambda: bool(self.assignments), timeout_s=timeout_s, what="an assignment")

    def wait_for(self, places: set[Place], *, timeout_s: float) -> None:
        """Waits until it has read the records at these places."""
        self.wait(
            lambda: places <= {place for place, _ in list(self.read)},
            timeout_s=timeout_s,
            what="all records with the consumer",
        )


def wall_ms() -> int:
    """The wall clock, as in the tools' events."""
    return int(time.time() * 1000)
